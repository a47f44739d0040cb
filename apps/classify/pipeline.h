#pragma once
#include <functional>
#include <memory>

#include "apps/classify/config.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/resize.h"
#include "nn/attacks/attacks.h"
#include "nn/metrics.h"
#include "nn/vit.h"

namespace pursuit::classify {

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
data::Transform evaluation_transform(
    const Config& config, std::function<data::Image(const data::Image&, const data::Sample&)> change = {});

data::LoaderOptions train_loader_options(const Config& config, const data::Share& share = {});
data::LoaderOptions evaluation_loader_options(const Config& config, const data::Share& share = {});

// What the model sees of pictures [B, channels, image_size, image_size], normalised, in the config's dtype
// and on its device.
Tensor input_of(const Config& config, const std::vector<uint8_t>& images);
Tensor labels_of(const data::Batch& batch, Device device = cpu);  // i32 [B]

struct Score {
  nn::ConfusionMatrix confusion;
  int64_t top5 = 0;
  double loss = 0;  // mean cross-entropy

  explicit Score(const Config& config) : confusion(int64_t(config.classes.size())) {}
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
Score evaluate(const attacks::Logits& logits, const Config& config, data::Loader& loader,
               const Change& attack = {}, const std::function<void(int64_t)>& tick = {});

}  // namespace pursuit::classify
