#pragma once
#include <memory>

#include "engine/ops.h"
#include "nn/convolution.h"
#include "nn/layers.h"
#include "nn/norms.h"
#include "nn/sequential.h"

// Two convolutional networks as a user writes them.
namespace pursuit::test {

// LeNet-5 (LeCun et al. 1998) with ReLU and max pooling: images [B, 1, 28, 28].
class LeNet : public nn::Callable<LeNet> {
 public:
  explicit LeNet(int64_t classes = 10)
      : conv1(1, 6, 5, {.padding = 2}), conv2(6, 16, 5), fc1(400, 120), fc2(120, 84), fc3(84, classes) {
    add_module("conv1", conv1);
    add_module("conv2", conv2);
    add_module("fc1", fc1);
    add_module("fc2", fc2);
    add_module("fc3", fc3);
  }
  Tensor forward(const Tensor& images) const {
    Tensor x = max_pool2d(relu(conv1(images)), {2});
    x = max_pool2d(relu(conv2(x)), {2});
    return fc3(relu(fc2(relu(fc1(x.reshape({x.size(0), -1}))))));
  }
  nn::Conv2d conv1, conv2;
  nn::Linear fc1, fc2, fc3;
};

class BasicBlock : public nn::Callable<BasicBlock> {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride)
      : conv1(in, out, 3, {.stride = stride, .padding = 1}, false),
        conv2(out, out, 3, {.padding = 1}, false),
        bn1(out),
        bn2(out) {
    add_module("conv1", conv1);
    add_module("bn1", bn1);
    add_module("conv2", conv2);
    add_module("bn2", bn2);
    downsamples_ = stride != 1 || in != out;
    if (!downsamples_) return;
    downsample.add<nn::Conv2d>(in, out, 1, ConvOptions{.stride = stride}, false).add<nn::BatchNorm2d>(out);
    add_module("downsample", downsample);
  }
  Tensor forward(const Tensor& x) const {
    const Tensor y = bn2(conv2(relu(bn1(conv1(x)))));
    return relu(y + (downsamples_ ? downsample(x) : x));
  }
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  nn::Sequential downsample;

 private:
  bool downsamples_;
};

// ResNet-18 (He et al. 2016) with torchvision's names; `width` is 64 there.
class ResNet18 : public nn::Callable<ResNet18> {
 public:
  explicit ResNet18(int64_t width = 64, int64_t classes = 1000)
      : conv1(3, width, 7, {.stride = 2, .padding = 3}, false), bn1(width), fc(8 * width, classes) {
    add_module("conv1", conv1);
    add_module("bn1", bn1);
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t out = width << i;
      stages[i].add<BasicBlock>(i == 0 ? width : out / 2, out, i == 0 ? 1 : 2).add<BasicBlock>(out, out, 1);
      add_module("layer" + std::to_string(i + 1), stages[i]);
    }
    add_module("fc", fc);
  }
  Tensor forward(const Tensor& images) const {
    Tensor x = max_pool2d(relu(bn1(conv1(images))), {.kernel = 3, .stride = 2, .padding = 1});
    for (const nn::Sequential& stage : stages) x = stage(x);
    return fc(x.mean({2, 3}));
  }
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Sequential stages[4];
  nn::Linear fc;
};

}  // namespace pursuit::test
