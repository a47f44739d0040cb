// Segmentation's loss and prediction on the simulated GPU, beyond `ops check --device cuda`.
#ifdef PURSUIT_SIMULATED
#include <doctest/doctest.h>

#include <cmath>

#include "engine/ops.h"

using namespace pursuit;

TEST_CASE("upsample_argmax on the GPU: the CPU's classes") {
  for (const auto& [shape, height, width] : {std::tuple{Shape{2, 11, 3, 2}, int64_t{13}, int64_t{9}},
                                             {Shape{1, 150, 2, 2}, 8, 8},
                                             {Shape{1, 600, 1, 2}, 2, 5},
                                             {Shape{1, 3, 5, 4}, 3, 2},
                                             {Shape{1, 1, 1, 1}, 2, 2}}) {
    // Small integers: equal logits are common.
    const Tensor drawn = uniform(shape, 0, 40, 5, 1).to(DType::i32).to(DType::f32);
    const Tensor got = upsample_argmax(drawn.to(cuda_device()), height, width).to(cpu);
    const Tensor values =
        upsample_bilinear(drawn.to(DType::f64), height, width).permute({0, 2, 3, 1}).contiguous();
    const std::vector<double> best = argmax(values).to_vector(), classes = got.to_vector();
    REQUIRE(classes.size() == best.size());
    REQUIRE(!classes.empty());
    for (size_t i = 0; i < classes.size(); ++i) {
      const double* z = values.data<double>() + int64_t(i) * shape[1];
      CHECK(z[int64_t(classes[i])] >= z[int64_t(best[i])] - 1e-4);
    }
  }
  std::vector<float> z(20, 1);
  z[7] = z[9] = 5;
  CHECK(upsample_argmax(from_vector(z, {1, 20, 1, 1}, cuda_device()), 1, 2).to(cpu).to_vector() ==
        std::vector<double>{7, 7});
}

TEST_CASE(
    "upsample_cross_entropy on the GPU: a wrong label makes the loss NaN, too many classes are refused") {
  const Tensor logits = uniform({1, 4, 2, 2}, -1, 1, 1, 1).to(cuda_device());
  const auto all = [](int64_t label) { return full({1, 4, 4}, double(label), DType::i64).to(cuda_device()); };
  for (const int64_t label : {int64_t(4), int64_t(-1), int64_t(1) << 32})
    CHECK(std::isnan(upsample_cross_entropy(logits, all(label)).to(cpu).item()));
  const Tensor wide = zeros({1, 513, 1, 1}).to(cuda_device());
  CHECK_THROWS_WITH_AS(upsample_cross_entropy(wide, all(4)), doctest::Contains("at most 512"), Error);
}
#endif
