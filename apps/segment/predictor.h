#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/pictures/evaluation.h"
#include "apps/segment/config.h"
#include "data/image.h"
#include "data/segmentation.h"
#include "data/share.h"
#include "nn/metrics.h"
#include "nn/sliding_window.h"

namespace pursuit::segment {

// The scaled and mirrored versions of a picture whose class probabilities are averaged.
struct Views {
  int64_t short_side = 0;            // resize to this shorter side, keeping the aspect ratio; 0: no resizing
  int64_t long_side = 0;             // upper limit of the longer side; 0: no limit
  std::vector<double> scales = {1};  // relative to that size
  bool flip = false;                 // mirrored versions too
  nn::WindowOptions window;
};
std::string describe(const Views& views);  // for example "shorter side 512, stride 480, scales 0.75,1, flip"

// Changes a normalised view of a picture, [1, 3, h, w], before the model sees it: an attack.
using ViewChange = std::function<Tensor(const Tensor& view)>;

// Predicts the classes of pixels with a model on sliding windows.
struct Predictor {
  nn::PatchLogits model;
  std::vector<double> mean, std;
  DType dtype = DType::f32;
  Device device = cpu;
  Views views;
  std::string lower = "the picture's size";  // if memory is too small; see apps::require_memory

  // The class of every pixel: an image of the picture's size with one channel. Throws Error if the model's
  // output is NaN or if memory is too small for the picture. `change` may be empty.
  data::Image classes_of(const data::Image& picture, const ViewChange& change = {}) const;
  // The same for a picture of this size, on shapes alone (engine/core/shapes_only.h).
  void look_on_shapes(int64_t height, int64_t width) const;

 private:
  void require_memory(int64_t height, int64_t width) const;
  // Returns the classes, i64 [1, height, width]; `pixels(scale, flip)` returns a view, u8 [1, 3, h, w].
  Tensor look(int64_t height, int64_t width, const std::function<Tensor(double, bool)>& pixels,
              const ViewChange& change = {}) const;

  mutable std::pair<int64_t, int64_t> fits_ = {0, 0};  // picture size that was found to fit into memory
};

// The views of a run's own evaluations.
Views views_of(const Config& config);
// A predictor with the config's views. It keeps a reference to the model.
Predictor predictor_of(const nn::Segmenter& model, const Config& config);

// Views given to eval and predict; what is not given stays as in the run.
struct ViewOptions {
  std::vector<double> scales;
  std::optional<bool> flip;
  std::optional<int64_t> stride, short_side, long_side;

  // Returns the config with these views. Throws Error that names the option.
  Config of(Config config) const;
  std::string arguments() const;  // as on a command line: " --stride 32"
};

Tensor numbers(const data::Image& classes);  // u8 [height, width]; `classes` has one channel

struct EvaluateOptions {
  apps::PictureChange change = {};  // a corruption
  // An attack on a view of the sample; may be empty.
  std::function<Tensor(const Tensor& view, const data::SegmentationSample& sample)> attack = {};
  // Called with the prediction for sample i of the data set.
  std::function<void(int64_t i, const data::SegmentationSample&, const data::Image& classes)> seen = {};
  apps::Tick tick = {};    // called after each picture
  data::Share share = {};  // this process's share of the pictures, one per batch
};

struct Totals {
  nn::ConfusionMatrix confusion;
  int64_t count = 0;  // pictures
  bool complete = false;
};
// Predicts every picture of the set at its own size and compares with the labels. Replacements of damaged
// pictures are not counted. A background thread loads the next picture. If a stop was requested, returns
// early with the totals so far.
Totals evaluate(const Predictor& predictor, const data::SegmentationDataset& data,
                const EvaluateOptions& options = {});

}  // namespace pursuit::segment
