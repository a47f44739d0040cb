#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "apps/classify/config.h"
#include "apps/pictures/evaluation.h"
#include "apps/study/inspect_options.h"
#include "apps/study/loaded_model.h"
#include "apps/training/task.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/resize.h"
#include "engine/step/transfer.h"
#include "nn/attacks/registry.h"
#include "nn/calibration.h"
#include "nn/inspection.h"
#include "nn/metrics.h"

namespace pursuit::classify {

using LoadedModel = apps::LoadedModel<Config>;

// Opens a split of the config's data; `first` (0: all), `part` and the config's limit as in
// data::DatasetOptions. Split::val are the pictures that --validation holds out. Throws Error if it is 0.
std::unique_ptr<data::Dataset> open_data(const Config& config, data::Split split, int64_t first = 0,
                                         const data::CorruptedPart& part = {});

// For data in place of the run's: leaves out the names of its files, but those of training where a split of the
// training data is opened.
void forget_files(Config& config, data::Split split);

// The split that training evaluates, and its name: "validation", or the test split's in the data set.
data::Split evaluated_split(const Config& config);
std::string split_name(const data::Dataset& data, data::Split split);

// Fills in the fields that depend on the data: channels, classes, image size, patch, mean and std.
void complete(Config& config, const data::Dataset& train);

// The picture that evaluation gives the model, before normalisation. A picture of the model's size is not
// resized. A square picture for a model of at most 64 pixels is resized to its size. All others are resized
// and cropped by data::imagenet_view.
data::Image evaluation_view(const Config& config, const data::Image& image,
                            data::Filter filter = data::Filter::bicubic);

// Of the parts of pictures that train_loader_options draws.
data::Transform train_transform(const Config& config);
// `change`, a corruption, is applied to the evaluation view before normalisation. With it views are resized
// bilinearly, as in ImageNet-C; without it bicubically.
data::Transform evaluation_transform(const Config& config, const apps::PictureChange& change = {});

data::LoaderOptions train_loader_options(const Config& config, const data::Share& share = {});
data::LoaderOptions evaluation_loader_options(const Config& config, const data::Share& share = {});

// Normalises pictures [B, channels, image_size, image_size]; the result has the config's dtype and device.
Tensor input_of(const Config& config, const std::vector<uint8_t>& images);
Tensor labels_of(const data::Batch& batch, Device device = cpu);  // i64 [B]

struct Totals {
  nn::ConfusionMatrix confusion;
  nn::Calibration calibration;
  int64_t top5 = 0;
  double loss = 0;  // mean cross-entropy

  explicit Totals(const Config& config) : confusion(int64_t(config.classes.size())) {}
  int64_t count() const { return confusion.total(); }
  double accuracy() const { return count() ? confusion.overall_accuracy() : 0; }
  double accuracy5() const { return count() ? double(top5) / double(count()) : 0; }
};
// Lowers the logits [B, classes] of all classes not in `only`, so that these are never predicted.
Tensor restricted(const Tensor& logits, const std::vector<int64_t>& only);
// For attacks, which aim at classes: only the logits of these, [rows, only], and labels as places among them.
Tensor logits_of(const std::vector<int64_t>& only, const Tensor& logits);
Tensor labels_among(const std::vector<int64_t>& only, const Tensor& labels);

// Returns the attacked form of normalised images; `pictures` are their indices in the data set.
using Change =
    std::function<Tensor(const Tensor& images, const Tensor& labels, const std::vector<int64_t>& pictures)>;
// Scores the logits over the loader's epoch 0. Replacements of damaged pictures are not counted. `attack` may
// be empty; `tick(images done)` is called after each batch. If a stop was requested, returns early with the
// totals so far.
Totals evaluate(const attacks::Logits& logits, const Config& config, data::Loader& loader,
                const Change& attack = {}, const apps::Tick& tick = {});
// Throws Error if none of the pictures was counted, because all are damaged.
void require_read(const Totals& totals, int64_t pictures);

// The input tensors of all steps; each batch is copied into them.
struct StepInput {
  StepInput(const Config& config, Device device);

  Upload images;                 // u8 [B, channels, size, size]
  std::optional<Upload> erased;  // i32 [B, 4]: x, y, width, height
  std::optional<Upload> mix;     // f32 [B, 6], see data::mix_rows
  Upload targets;                // i64 [B]; f32 [B, classes] with mixup or CutMix
  Tensor adversarial;            // [B, channels, size, size], normalised, instead of `images`; else undefined
};

// Adversarial training: computes `input.adversarial` by attacking the model, in evaluation mode, on the
// batch's pixels. `first` counts the pictures of the run before this batch; random numbers depend on it.
void attack_batch(Model& model, const Config& config, StepInput& input, int64_t first);

nn::Loss loss(const Model& model, const Config& config, const StepInput& input);

// Run a training step, or the evaluation of one batch, on shapes alone, for apps::require_memory. Attacks
// also need the `gradients` of the images.
void train_on_shapes(const Config& config);
void evaluate_on_shapes(const Model& model, const Config& config, bool gradients);

// Shows the model so many pictures, evenly spaced, as evaluation does.
void show_pictures(const Model& model, const Config& config, const data::Dataset& data, int64_t count,
                   nn::AttentionInspection& inspection);
// The same for `inspect`, of the run's data or others. Notes the data in the conditions and returns the first
// picture, for the film strip.
apps::Filmed show_split(const LoadedModel& loaded, const apps::InspectPicturesOptions& options,
                        nn::AttentionInspection& inspection, apps::Conditions& conditions);

// The model's output for one picture, and the attention of its class token if it has one.
struct Prediction {
  data::Image view;                          // the model's input before normalisation
  std::vector<float> logits, probabilities;  // per class
  std::vector<int> ranking;                  // classes by descending probability; ties in order of class
  std::vector<float> attention;  // [grid, grid]: class token to patches, mean over the heads; or empty
  int grid = 0;                  // patches per side
};

// A negative `block` counts from the end (see Model::class_attention). `only` as in restricted();
// empty: all classes.
Prediction look_at(const LoadedModel& loaded, const data::Image& image, int block = -1,
                   const std::vector<int64_t>& only = {});

}  // namespace pursuit::classify
