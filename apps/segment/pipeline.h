#pragma once
#include <functional>
#include <memory>

#include "apps/segment/config.h"
#include "apps/training/task.h"
#include "data/loader.h"
#include "data/segmentation.h"
#include "engine/step/transfer.h"
#include "nn/segmenter.h"

namespace pursuit::segment {

// The split's pictures, or of its first so many, that the config's limits leave. Of val and test a set may
// have one alone: that is taken for both, and noted on stderr.
std::unique_ptr<data::SegmentationDataset> open_data(const Config& config, const std::string& split,
                                                     int64_t first = 0);

// Fills in what depends on the data: classes, mean and standard deviation.
void complete(Config& config, const data::SegmentationDataset& train);

data::SegmentationTransform train_transform(const Config& config);
data::LoaderOptions train_loader_options(const Config& config, const data::Share& share);

// "camvid test"; `split` as the data itself calls it
std::string describe_data(const Config& config, const std::string& split);

// Tensors that stay where they are, which batches are sent to.
struct StepInput {
  StepInput(const Config& config, Device device);

  Upload images;  // u8 [B, 3, height, width]
  Upload labels;  // i64 [B, height, width]
};

nn::Loss loss(const nn::Segmenter& model, const Config& config, const StepInput& input);

// The work of training, with an evaluation of a picture of this size, on shapes alone, for
// apps::require_memory.
void train_on_shapes(const Config& config, int64_t height, int64_t width);

// Copies the encoder of a run or checkpoint of `classify` into the model, its position embeddings resized.
// Throws Error that names what does not fit.
void load_encoder(nn::Segmenter& model, const std::string& run_or_file);

}  // namespace pursuit::segment
