// Convolutional layers and networks on the public face.
#include "nn/convolution.h"

#include <doctest/doctest.h>

#include <cmath>

#include "nn/init.h"
#include "nn/optim.h"
#include "nn/resnet.h"
#include "tests/differences.h"
#include "tests/nn/picture_nets.h"

using namespace pursuit;

TEST_CASE("Conv2d has PyTorch's names, shapes and default initialisation") {
  nn::Conv2d conv(6, 9, {3, 5}, {.groups = 3});
  const std::vector<nn::NamedTensor> parameters = conv.parameters();
  REQUIRE(parameters.size() == 2);
  CHECK(parameters[0].name == "weight");
  CHECK(parameters[1].name == "bias");
  CHECK(conv.weight.shape() == Shape{9, 2, 3, 5});
  CHECK(conv.bias.shape() == Shape{9});
  nn::initialise(conv, nn::Init::pytorch, 1);
  const double bound = 1 / std::sqrt(2.0 * 3 * 5);
  const double most = largest_magnitude(conv.weight);
  CHECK(most <= bound);
  CHECK(most > 0.9 * bound);
  CHECK(largest_magnitude(conv.bias) <= bound);

  CHECK(nn::Conv2d(4, 4, 3, {}, false).parameters().size() == 1);
  CHECK_THROWS_AS(nn::Conv2d(6, 9, 3, {.groups = 2}), Error);
}

TEST_CASE("convolutional layers follow the type of what they are given") {
  nn::Sequential net;
  net.add<nn::Conv2d>(3, 4, 3, ConvOptions{.padding = 1})
      .add<nn::MaxPool2d>(MaxPoolOptions{2})
      .add<nn::AvgPool2d>(AvgPoolOptions{2});
  nn::initialise(net, nn::Init::pytorch, 2);
  CHECK(net.parameters()[0].name == "0.weight");
  const Tensor x = normal({2, 3, 8, 12}, 0, 1, 1, 1);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor y = net(x.to(dtype));
    CHECK(y.dtype() == dtype);
    CHECK(y.shape() == Shape{2, 4, 2, 3});
  }
}

TEST_CASE("LeNet learns eight pictures by heart") {
  test::LeNet net;
  nn::initialise(net, nn::Init::pytorch, 0);
  net.set_training(true);
  nn::FlatParameters flat(net);
  nn::Optimizer optimizer(flat);
  const Tensor x = normal({8, 1, 28, 28}, 0, 1, 1, 1);
  const Tensor labels = from_vector<int32_t>({0, 1, 2, 3, 4, 5, 6, 7}, {8});
  double first = 0, last = 0;
  for (int i = 0; i < 60; ++i) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), labels);
    loss.backward();
    optimizer.step(2e-3);
    if (i == 0) first = loss.item();
    last = loss.item();
  }
  CHECK(first > 2);
  CHECK(last < 0.1);
}

TEST_CASE("ResNet-18 has torchvision's parameters") {
  nn::ResNet net{{}};
  CHECK(net.parameter_count() == 11689512);
  const std::vector<nn::NamedTensor> state = net.state();
  CHECK(state.size() == 122);
  const auto has = [&](const std::string& name) {
    return std::any_of(state.begin(), state.end(), [&](const auto& t) { return t.name == name; });
  };
  for (const char* name :
       {"conv1.weight", "bn1.running_var", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight",
        "layer2.0.downsample.1.num_batches_tracked", "layer4.1.bn2.bias", "fc.bias"})
    CHECK_MESSAGE(has(name), name);
}
