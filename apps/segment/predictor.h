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

// How a picture is looked at.
struct Views {
  int64_t short_side = 0;            // the picture is scaled to it, keeping its ratio; 0: as it is
  int64_t long_side = 0;             // but so that the longer side is at most this; 0: no limit
  std::vector<double> scales = {1};  // of that size; probabilities are averaged over them ...
  bool flip = false;                 // ... and over the mirrored pictures
  nn::WindowOptions window;
};
std::string describe(const Views& views);  // "shorter side 512, stride 480, scales 0.75,1, flip"

// From pictures to classes.
struct Predictor {
  nn::PatchLogits model;
  std::vector<double> mean, std;
  DType dtype = DType::f32;
  Device device = cpu;
  Views views;

  // The class of every pixel of an RGB picture, at its own size, one channel. Throws Error if the model gives
  // NaN, or if the picture takes more memory than there is.
  data::Image classes_of(const data::Image& picture) const;
  // The same work for a picture of this size, on shapes alone (engine/core/shapes_only.h).
  void look_on_shapes(int64_t height, int64_t width) const;

 private:
  void require_memory(int64_t height, int64_t width) const;
  // The classes, i64 [1, height, width]; `pixels(scale, flip)` gives a view's, u8 [1, 3, h, w].
  Tensor look(int64_t height, int64_t width, const std::function<Tensor(double, bool)>& pixels) const;

  mutable std::pair<int64_t, int64_t> fits_ = {0, 0};  // the picture's size for which there is memory
};

// How a run's own evaluations look at pictures.
Views views_of(const Config& config);
// Pictures are looked at as the config says; refers to the model.
Predictor predictor_of(const nn::Segmenter& model, const Config& config);

// How eval and predict are to look at pictures: as the run does where nothing is said.
struct ViewOptions {
  std::vector<double> scales;
  std::optional<bool> flip;
  std::optional<int64_t> stride, short_side, long_side;

  // The config with them. Throws Error that names the option.
  Config of(Config config) const;
  std::string arguments() const;  // " --stride 32", as on a command line
};

Tensor numbers(const data::Image& classes);  // u8 [height, width], of a picture with one channel

struct EvaluateOptions {
  apps::PictureChange change = {};  // a corruption
  // What was predicted for sample i of the set.
  std::function<void(int64_t i, const data::SegmentationSample&, const data::Image& classes)> seen = {};
  apps::Tick tick = {};    // after each picture
  data::Share share = {};  // of the pictures, one a batch
};

struct Totals {
  nn::ConfusionMatrix confusion;
  int64_t count = 0;  // pictures
  bool complete = false;
};
// Predicts every picture of the set at its own size and counts classes against labels; stand-ins for damaged
// pictures are not counted. The next picture is made ready beside the prediction. Stops early, with what it
// has, when a stop was requested.
Totals evaluate(const Predictor& predictor, const data::SegmentationDataset& data,
                const EvaluateOptions& options = {});

}  // namespace pursuit::segment
