#include "nn/vit.h"

#include <doctest/doctest.h>

#include "engine/ops.h"
#include "nn/init.h"

using namespace pursuit;

namespace {

nn::VitConfig small() {
  nn::VitConfig c;
  c.image = 8, c.patch = 4, c.dim = 12, c.depth = 2, c.heads = 3, c.classes = 5;
  return c;
}

}  // namespace

TEST_CASE("vit: under bf16 the residual stream and its gradient stay f32") {
  nn::VitConfig config = small();
  config.drop_path = 0.5;
  nn::VitBlock block(config, 1);
  // The layers add nothing, so the output is the residual stream itself.
  for (const nn::NamedTensor& p : block.parameters()) nn::fill_constant(*p.tensor, 0);
  Tensor x = uniform({4, config.tokens(), config.dim}, -1, 1, 1, 1);
  x.requires_grad();
  const Tensor seed = uniform(x.shape(), -1, 1, 1, 2);
  for (const bool training : {false, true}) {  // with drop path, training takes another code path
    block.set_training(training);
    const Tensor y = block.forward(x, DType::bf16, {7, 1, {}}).sum();
    CHECK(y.dtype() == DType::f32);
    CHECK(y.to_vector() == x.to_vector());
    x.zero_grad();
    y.backward(seed);
    CHECK(x.grad().to_vector() == seed.to_vector());
  }
}

TEST_CASE("vit: in bf16 the logits are bf16 and near those of f32, the gradients of the weights f32") {
  nn::VisionTransformer model(small());
  nn::initialise(model, nn::Init::pytorch, 1);
  const Tensor images = uniform({2, 3, 8, 8}, -1, 1, 1, 3), labels = from_vector<int32_t>({1, 4}, {2});
  const Tensor exact = model.forward(images), rough = model.forward(images.to(DType::bf16));
  CHECK(rough.dtype() == DType::bf16);
  CHECK(model.features(images.to(DType::bf16)).dtype() == DType::bf16);
  CHECK(model.class_attention(images.to(DType::bf16)).dtype() == DType::bf16);
  const std::vector<double> want = exact.to_vector(), got = rough.to_vector();
  for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(0.02));
  cross_entropy(rough, labels).backward();
  for (const nn::NamedTensor& p : model.parameters()) {
    CAPTURE(p.name);
    REQUIRE(p.tensor->grad().defined());
    CHECK(p.tensor->grad().dtype() == DType::f32);
  }
}
