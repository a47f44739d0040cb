#pragma once
#include <memory>
#include <vector>

#include "nn/convolution.h"
#include "nn/layers.h"
#include "nn/norms.h"
#include "nn/sequential.h"

namespace pursuit::nn {

struct ResNetConfig {
  int64_t channels = 3, classes = 1000;
  std::vector<int64_t> blocks = {2, 2, 2, 2};  // per stage
  bool bottleneck = false;  // blocks of three convolutions, of which the last has four times the channels
  int64_t width = 64;       // channels of the first stage; each further stage has twice as many
  // For small images: the first convolution is 3 x 3 with stride 1, and nothing is pooled behind it.
  bool small_stem = false;

  int64_t expansion() const { return bottleneck ? 4 : 1; }
  int64_t features() const { return (width << (blocks.size() - 1)) * expansion(); }  // of the last stage
};

// relu(shortcut(x) + layers(x)), where layers are convolutions, each with batch norm. The first 3 x 3
// convolution has the stride.
class ResNetBlock : public Callable<ResNetBlock> {
 public:
  ResNetBlock(int64_t in, int64_t width, int64_t stride, bool bottleneck);
  Tensor forward(const Tensor& x) const;

 private:
  void add(int64_t in, int64_t out, int64_t kernel, int64_t stride);

  std::vector<std::unique_ptr<Conv2d>> convolutions_;
  std::vector<std::unique_ptr<BatchNorm2d>> norms_;
  bool downsamples_ = false;
  Sequential downsample_;
};

// ResNet (He et al. 2016), named as in timm and torchvision: ResNet-18 by default, ResNet-50 with bottleneck
// and blocks {3, 4, 6, 3}. Images [B, channels, H, W] to logits [B, classes]. Draws no random numbers.
class ResNet : public Callable<ResNet> {
 public:
  explicit ResNet(const ResNetConfig& config);
  Tensor forward(const Tensor& images) const;

 private:
  ResNetConfig config_;
  Conv2d conv1_;
  BatchNorm2d bn1_;
  std::vector<std::unique_ptr<ResNetBlock>> blocks_;
  Linear fc_;
};

}  // namespace pursuit::nn
