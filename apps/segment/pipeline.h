#pragma once
#include <functional>
#include <memory>

#include "apps/run/evaluations.h"
#include "apps/segment/config.h"
#include "apps/study/inspect_options.h"
#include "apps/training/task.h"
#include "data/loader.h"
#include "data/segmentation.h"
#include "engine/step/transfer.h"
#include "nn/inspection.h"
#include "nn/segmenter.h"

namespace pursuit::segment {

// Opens a split of the config's data; `first` (0: all), `part` and the config's limit as in
// data::SegmentationOptions. If the data has only one of val and test, opens that one for both and prints a
// note to stderr.
std::unique_ptr<data::SegmentationDataset> open_data(const Config& config, data::Split split,
                                                     int64_t first = 0, const data::CorruptedPart& part = {});

// Fills in classes and colours from the data, mean and std from the encoder's run (without one ImageNet's).
void complete(Config& config, const data::SegmentationDataset& train);

data::SegmentationTransform train_transform(const Config& config);
data::LoaderOptions train_loader_options(const Config& config, const data::Share& share);

std::string describe_data(const Config& config, data::Split split);  // for example "camvid test"

// The input tensors of all steps; each batch is copied into them.
struct StepInput {
  StepInput(const Config& config, Device device);

  Upload images;  // u8 [B, 3, height, width]
  Upload labels;  // i64 [B, height, width]
};

nn::Loss loss(const nn::Segmenter& model, const Config& config, const StepInput& input);

// Shows the model so many pictures, evenly spaced, as evaluation does: window by window.
void show_pictures(const nn::Segmenter& model, const Config& config, const data::SegmentationDataset& data,
                   int64_t count, nn::AttentionInspection& inspection);
// The same for `inspect`, of the run's data or others. Notes the data in the conditions and returns the first
// picture as one window, for the film strip.
apps::Filmed show_split(const apps::LoadedModel<Config>& loaded, const apps::InspectPicturesOptions& options,
                        nn::AttentionInspection& inspection, apps::Conditions& conditions);

// Runs a training step and the evaluation of one picture of this size on shapes alone, for
// apps::require_memory.
void train_on_shapes(const Config& config, int64_t height, int64_t width);

// Copies the encoder of a run or checkpoint of `classify` into the model, of averaged weights if the run is
// evaluated with them, and resizes its position embeddings. Throws Error that names the parameter that does not fit.
void load_encoder(nn::Segmenter& model, const std::string& run_or_file);

}  // namespace pursuit::segment
