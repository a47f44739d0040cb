#pragma once
#include <functional>
#include <memory>

#include "apps/segment/config.h"
#include "data/loader.h"
#include "data/segmentation.h"

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

}  // namespace pursuit::segment
