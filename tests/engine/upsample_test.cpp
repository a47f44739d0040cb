#include <doctest/doctest.h>

#include <limits>

#include "engine/core/memory.h"
#include "engine/cpu/parallel.h"
#include "engine/ops.h"
#include "tests/differences.h"

using namespace pursuit;

namespace {

Tensor random_labels(const Shape& shape, int64_t classes, uint64_t stream) {
  return (uniform(shape, 0, double(classes), 3, stream)).to(DType::i32);
}

// The plain composition, with logits of the full size.
Tensor composed(const Tensor& logits, const Tensor& labels, int64_t ignore_index) {
  const Tensor full = upsample_bilinear(logits, labels.size(1), labels.size(2)).permute({0, 2, 3, 1});
  return cross_entropy(full.reshape({labels.numel(), logits.size(1)}), labels.reshape({labels.numel()}), 0,
                       ignore_index);
}

}  // namespace

TEST_CASE("upsample_cross_entropy: takes at most a tenth of the composition's memory at 512 x 512 x 150") {
  const Tensor start = uniform({1, 150, 32, 32}, -3, 3, 1, 1);
  const Tensor labels = random_labels({1, 512, 512}, 150, 2);
  const auto peak = [&](auto loss_of, Tensor& gradient) {
    Tensor logits = start.to(cpu);
    logits.requires_grad();
    const int64_t before = memory_stats(cpu).allocated;
    reset_peak_memory(cpu);
    const Tensor loss = loss_of(logits);
    loss.backward();
    gradient = logits.grad();
    return memory_stats(cpu).allocated_peak - before;
  };
  Tensor fused_gradient, plain_gradient;
  const int64_t fused =
      peak([&](const Tensor& x) { return upsample_cross_entropy(x, labels); }, fused_gradient);
  const int64_t plain = peak([&](const Tensor& x) { return composed(x, labels, 255); }, plain_gradient);
  CHECK(fused > 0);
  CHECK(fused * 10 <= plain);
  CHECK(fused * 10 <= int64_t(512) * 512 * 150 * 4);  // of the full logits alone
  CHECK(largest_difference(fused_gradient, plain_gradient) < 1e-8);
}

TEST_CASE("upsample_cross_entropy: the same bits for any number of threads, for u8, i32 and i64 labels") {
  const Tensor start = uniform({2, 7, 5, 4}, -3, 3, 1, 1), labels = random_labels({2, 23, 17}, 7, 2);
  const auto run = [&](const Tensor& y) {
    Tensor logits = start.to(cpu).contiguous();
    logits.requires_grad();
    const Tensor loss = upsample_cross_entropy(logits, y, 3);
    loss.backward();
    std::vector<double> all = logits.grad().to_vector();
    all.push_back(loss.item());
    return all;
  };
  const int threads = num_threads();
  set_num_threads(1);
  const auto alone = run(labels);
  set_num_threads(3);
  CHECK(run(labels) == alone);
  set_num_threads(threads);
  CHECK(run(labels.to(DType::u8)) == alone);
  CHECK(run(labels.to(DType::i64)) == alone);
}

TEST_CASE("upsample_cross_entropy: an ignore_index beyond 32 bits ignores no smaller label") {
  const Tensor logits = uniform({1, 4, 3, 3}, -3, 3, 1, 1), labels = random_labels({1, 9, 9}, 4, 2);
  const int64_t far = (int64_t(1) << 32) + 2;
  CHECK(upsample_cross_entropy(logits, labels, far).item() == upsample_cross_entropy(logits, labels).item());
  const Tensor none = full({1, 9, 9}, double(far), DType::i64);
  CHECK(upsample_cross_entropy(logits, none, far).item() == 0);
}

TEST_CASE("upsample_cross_entropy: without a gradient the same loss; nothing counted gives 0") {
  Tensor logits = uniform({1, 4, 3, 3}, -3, 3, 1, 1);
  const Tensor labels = random_labels({1, 9, 9}, 4, 2);
  const double alone = upsample_cross_entropy(logits, labels).item();
  logits.requires_grad();
  CHECK(upsample_cross_entropy(logits, labels).item() == alone);
  const Tensor none = upsample_cross_entropy(logits, full({1, 9, 9}, 255, DType::i32));
  CHECK(none.item() == 0);
  none.backward();
  for (const double g : logits.grad().to_vector()) CHECK(g == 0);
}

TEST_CASE("upsample_cross_entropy: a wrong label or shape is named") {
  const Tensor logits = uniform({2, 4, 3, 3}, -3, 3, 1, 1);
  std::vector<int32_t> y(2 * 9 * 6, 1);
  y[9 * 6 + 6 * 2 + 5] = 4;
  CHECK_THROWS_WITH_AS(upsample_cross_entropy(logits, from_vector(y, {2, 9, 6})),
                       doctest::Contains("image 1 at x 5, y 2 is 4, need 0 to 3 or ignore_index 255"), Error);
  CHECK_THROWS_AS(upsample_cross_entropy(logits, full({2, 9, 6}, double(int64_t(1) << 32), DType::i64)),
                  Error);
  y[9 * 6 + 6 * 2 + 5] = -1;
  CHECK_THROWS_AS(upsample_cross_entropy(logits, from_vector(y, {2, 9, 6})), Error);
  CHECK_THROWS_AS(upsample_cross_entropy(logits, zeros({1, 9, 6}, DType::i32)), Error);
  CHECK_THROWS_AS(upsample_cross_entropy(logits, zeros({2, 9, 6})), Error);
  CHECK_THROWS_AS(upsample_cross_entropy(logits, zeros({2, 9}, DType::i32)), Error);
}

TEST_CASE("upsample_argmax: the classes of the plain composition") {
  for (const auto& [shape, height, width] : {std::tuple{Shape{2, 11, 6, 5}, int64_t{45}, int64_t{31}},
                                             {Shape{1, 150, 4, 4}, 64, 64},
                                             {Shape{1, 3, 9, 8}, 4, 5},
                                             {Shape{1, 1, 2, 3}, 5, 7},
                                             {Shape{1, 17, 1, 1}, 3, 2}}) {
    const Tensor logits = uniform(shape, -1, 1, 5, 1, DType::f64);
    const Tensor plain = argmax(upsample_bilinear(logits, height, width).permute({0, 2, 3, 1}));
    const Tensor got = upsample_argmax(logits, height, width);
    CHECK(got.dtype() == DType::i64);
    REQUIRE(got.shape() == plain.shape());
    CHECK(got.to_vector() == plain.to_vector());
    // f32 may only disagree where two classes are as good as equal.
    const std::vector<double> rough = upsample_argmax(logits.to(DType::f32), height, width).to_vector();
    const Tensor values = upsample_bilinear(logits, height, width).permute({0, 2, 3, 1}).contiguous();
    for (size_t i = 0; i < rough.size(); ++i) {
      const double* z = values.data<double>() + int64_t(i) * shape[1];
      CHECK(z[int64_t(rough[i])] >= z[int64_t(plain.data<int64_t>()[i])] - 1e-6);
    }
  }
}

TEST_CASE("upsample_argmax: the first of equals, a NaN before all, and errors") {
  CHECK(upsample_argmax(zeros({1, 20, 2, 2}), 3, 3).to_vector() == std::vector<double>(9, 0));
  std::vector<float> z(20, 1);
  z[17] = std::numeric_limits<float>::quiet_NaN();
  z[3] = 5;
  CHECK(upsample_argmax(from_vector(z, {1, 20, 1, 1}), 1, 2).to_vector() == std::vector<double>{17, 17});
  CHECK_THROWS_AS(upsample_argmax(zeros({1, 2, 2}), 3, 3), Error);
  CHECK_THROWS_AS(upsample_argmax(zeros({1, 2, 2, 2}), 0, 3), Error);
}
