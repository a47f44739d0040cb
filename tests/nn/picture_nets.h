#pragma once
#include "engine/ops.h"
#include "nn/convolution.h"
#include "nn/layers.h"

// A convolutional network as a user writes it.
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

}  // namespace pursuit::test
