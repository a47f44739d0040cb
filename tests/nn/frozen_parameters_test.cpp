#include "nn/frozen_parameters.h"

#include <doctest/doctest.h>

#include "engine/ops.h"
#include "nn/layers.h"
#include "nn/optim.h"

using namespace pursuit;
using namespace pursuit::nn;

TEST_CASE("frozen parameters have no gradient, and train again afterwards") {
  Linear layer(3, 2);
  const FlatParameters flat(layer);
  copy_values(layer.weight.detach(), uniform({2, 3}, -1, 1, 0, 0));
  Tensor x = uniform({4, 3}, -1, 1, 0, 1);
  x.requires_grad();
  const Node* node = layer.weight.node().get();
  {
    const FrozenParameters frozen(layer);
    CHECK_FALSE(layer.weight.needs_grad());
    sum(layer(x)).backward();
  }
  CHECK(x.grad().defined());
  CHECK_FALSE(layer.weight.grad().defined());
  CHECK(layer.weight.node().get() == node);
  CHECK(layer.weight.data<float>() == flat.values.data<float>() + flat.offset(0));

  sum(layer(x.detach())).backward();
  REQUIRE(layer.weight.grad().defined());
  CHECK(layer.weight.grad().data<float>() == flat.grads.data<float>() + flat.offset(0));
  const std::vector<double> sums = sum(x.detach(), {0}).to_vector(), grad = layer.weight.grad().to_vector();
  for (size_t i = 0; i < 6; ++i) CHECK(grad[i] == doctest::Approx(sums[i % 3]));
}
