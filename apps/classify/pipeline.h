#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "apps/classify/config.h"
#include "apps/pictures/evaluation.h"
#include "apps/study/loaded_model.h"
#include "apps/training/task.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/resize.h"
#include "engine/step/transfer.h"
#include "nn/attacks/attacks.h"
#include "nn/metrics.h"
#include "nn/vit.h"

namespace pursuit::classify {

using LoadedModel = apps::LoadedModel<Config>;

// The split's pictures, or of its first so many, that the config's limits leave.
std::unique_ptr<data::Dataset> open_data(const Config& config, data::Split split, int64_t first = 0);

// Fills in what depends on the data: channels, classes, image size, patch, mean and standard deviation.
void complete(Config& config, const data::Dataset& train);

// A picture as evaluation sees it, before normalisation: one of the model's size as it is, a square one for a
// model of at most 64 pixels resized as a whole, others as data::imagenet_view has it.
data::Image evaluation_view(const Config& config, const data::Image& image,
                            data::Filter filter = data::Filter::bicubic);

data::Transform train_transform(const Config& config);
// `change` is applied to the evaluation view before it is normalised (a corruption); empty: nothing. What is
// changed was resized bilinearly, as the pictures of ImageNet-C were; clean pictures are by cubics.
data::Transform evaluation_transform(const Config& config, const apps::PictureChange& change = {});

data::LoaderOptions train_loader_options(const Config& config, const data::Share& share = {});
data::LoaderOptions evaluation_loader_options(const Config& config, const data::Share& share = {});

// What the model sees of pictures [B, channels, image_size, image_size], normalised, in the config's dtype
// and on its device.
Tensor input_of(const Config& config, const std::vector<uint8_t>& images);
Tensor labels_of(const data::Batch& batch, Device device = cpu);  // i64 [B]

struct Totals {
  nn::ConfusionMatrix confusion;
  int64_t top5 = 0;
  double loss = 0;  // mean cross-entropy

  explicit Totals(const Config& config) : confusion(int64_t(config.classes.size())) {}
  int64_t count() const { return confusion.total(); }
  double accuracy() const { return count() ? confusion.overall_accuracy() : 0; }
  double accuracy5() const { return count() ? double(top5) / double(count()) : 0; }
};
// Logits [B, classes] with all but those of the classes `only` (all: as they are) so low that nothing else is
// ever predicted.
Tensor restricted(const Tensor& logits, const std::vector<int64_t>& only);

// Replaces normalised pictures before they are scored; `pictures` are their numbers in the data set.
using Change =
    std::function<Tensor(const Tensor& images, const Tensor& labels, const std::vector<int64_t>& pictures)>;
// Scores logits over the loader's epoch 0, without pictures that stand in for damaged ones. `attack` is
// nullable; `tick(images done)` is called after each batch. Stops early, with what it has, when a stop was
// requested.
Totals evaluate(const attacks::Logits& logits, const Config& config, data::Loader& loader,
                const Change& attack = {}, const apps::Tick& tick = {});

// Tensors that stay where they are, which batches are sent to.
struct StepInput {
  StepInput(const Config& config, Device device);

  Upload images;                 // u8 [B, channels, size, size]
  std::optional<Upload> erased;  // i32 [B, 4]: x, y, width, height
  std::optional<Upload> mix;     // f32 [B, 6], see data::mix_rows
  Upload targets;                // i64 [B], or f32 [B, classes] where pictures are mixed
};

nn::Loss loss(const nn::VisionTransformer& model, const Config& config, const StepInput& input);

// The work of training, and of evaluating a batch, on shapes alone, for apps::require_memory; with
// `gradients` of the pictures, as attacks take them.
void train_on_shapes(const Config& config);
void evaluate_on_shapes(const nn::VisionTransformer& model, const Config& config, bool gradients);

// What a model says of one picture, and where its class token looks.
struct Prediction {
  data::Image view;                          // as the model saw it, before normalisation
  std::vector<float> logits, probabilities;  // per class
  std::vector<int> ranking;                  // classes by falling probability, first of equals first
  // The class token's attention in one block, mean over the heads, its own entry left out: [grid, grid].
  std::vector<float> attention;
  int grid = 0;
};

// `block` as in VisionTransformer::class_attention: negative counts from the end. `only` as in restricted(),
// empty: all classes.
Prediction look_at(const LoadedModel& loaded, const data::Image& image, int block = -1,
                   const std::vector<int64_t>& only = {});

}  // namespace pursuit::classify
