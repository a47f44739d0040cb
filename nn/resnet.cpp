#include "nn/resnet.h"

#include <algorithm>

#include "engine/ops.h"

namespace pursuit::nn {

namespace {

const ResNetConfig& checked(const ResNetConfig& c) {
  const bool filled = std::all_of(c.blocks.begin(), c.blocks.end(), [](int64_t n) { return n >= 1; });
  if (c.blocks.empty() || !filled || c.width < 1 || c.classes < 1 || c.channels < 1)
    fail("resnet", "width, classes, channels and the blocks of every stage must be at least 1");
  return c;
}

}  // namespace

ResNetBlock::ResNetBlock(int64_t in, int64_t width, int64_t stride, bool bottleneck) {
  const int64_t out = bottleneck ? 4 * width : width;
  if (bottleneck) {
    add(in, width, 1, 1);
    add(width, width, 3, stride);
    add(width, out, 1, 1);
  } else {
    add(in, width, 3, stride);
    add(width, out, 3, 1);
  }
  downsamples_ = stride != 1 || in != out;
  if (!downsamples_) return;
  downsample_.add<Conv2d>(in, out, 1, ConvOptions{.stride = stride}, false).add<BatchNorm2d>(out);
  add_module("downsample", downsample_);
}

void ResNetBlock::add(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  const ConvOptions options{.stride = stride, .padding = kernel / 2};
  convolutions_.push_back(std::make_unique<Conv2d>(in, out, kernel, options, false));
  norms_.push_back(std::make_unique<BatchNorm2d>(out));
  const std::string number = std::to_string(norms_.size());
  add_module("conv" + number, *convolutions_.back());
  add_module("bn" + number, *norms_.back());
}

Tensor ResNetBlock::forward(const Tensor& x) const {
  Tensor y = x;
  for (size_t i = 0; i < norms_.size(); ++i) {
    y = (*norms_[i])((*convolutions_[i])(y));
    if (i + 1 < norms_.size()) y = relu(y);
  }
  return relu(y + (downsamples_ ? downsample_(x) : x));
}

ResNet::ResNet(const ResNetConfig& config)
    : config_(checked(config)),
      conv1_(config.channels, config.width, config.small_stem ? 3 : 7,
             {.stride = config.small_stem ? 1 : 2, .padding = config.small_stem ? 1 : 3}, false),
      bn1_(config.width),
      fc_(config.features(), config.classes) {
  add_module("conv1", conv1_);
  add_module("bn1", bn1_);
  int64_t in = config.width;
  for (size_t stage = 0; stage < config.blocks.size(); ++stage)
    for (int64_t i = 0; i < config.blocks[stage]; ++i) {
      const int64_t width = config.width << stage, stride = stage > 0 && i == 0 ? 2 : 1;
      blocks_.push_back(std::make_unique<ResNetBlock>(in, width, stride, config.bottleneck));
      add_module("layer" + std::to_string(stage + 1) + "." + std::to_string(i), *blocks_.back());
      in = width * config.expansion();
    }
  add_module("fc", fc_);
}

Tensor ResNet::forward(const Tensor& images) const {
  if (images.ndim() != 4 || images.size(1) != config_.channels)
    fail("resnet",
         "got " + images.str() + ", need images [B, " + std::to_string(config_.channels) + ", H, W]");
  Tensor x = relu(bn1_(conv1_(images)));
  if (!config_.small_stem) x = max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1});
  for (const auto& block : blocks_) x = (*block)(x);
  return fc_(mean(x, {2, 3}));
}

}  // namespace pursuit::nn
