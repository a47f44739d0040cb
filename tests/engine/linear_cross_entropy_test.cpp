#include <doctest/doctest.h>

#include <cmath>

#include "cuda/runtime.h"
#include "engine/core/memory.h"
#include "engine/cpu/parallel.h"
#include "engine/ops.h"

using namespace pursuit;

namespace {

Tensor some_labels(int64_t rows, int64_t classes) {
  std::vector<int32_t> y(size_t(rows), -1);
  for (size_t i = 0; i < y.size(); ++i)
    if (i % 5 != 3) y[i] = int32_t((i * 7919) % size_t(classes));
  return from_vector(y, {rows});
}

}  // namespace

TEST_CASE(
    "linear_cross_entropy: the loss of all logits without all logits, the same on any number of threads") {
  const int64_t rows = 300, dim = 24, classes = 9000;
  const Tensor labels = some_labels(rows, classes);
  const auto run = [&](const auto& f) {
    std::vector<Tensor> leaves = {normal({rows, dim}, 0, 1, 1, 1), normal({classes, dim}, 0, 0.5, 1, 2),
                                  normal({classes}, 0, 0.5, 1, 3)};
    for (Tensor& t : leaves) t.requires_grad();
    const Tensor loss = f(leaves[0], leaves[1], leaves[2]);
    loss.backward();
    std::vector<double> all = {loss.item()};
    for (const Tensor& t : leaves)
      for (const double g : t.grad().to_vector()) all.push_back(g);
    return all;
  };
  const auto fused = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
    return linear_cross_entropy(x, w, b, labels);
  };
  const auto plain = run([&](const Tensor& x, const Tensor& w, const Tensor& b) {
    return cross_entropy(linear(x, w, b), labels);
  });
  empty_cache(cpu);
  reset_peak_memory(cpu);
  const int64_t before = memory_stats(cpu).allocated;
  const auto got = run(fused);
  CHECK(memory_stats(cpu).allocated_peak - before < rows * classes * 4);
  REQUIRE(got.size() == plain.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::fabs(got[i] - plain[i]) <= 1e-7 + 1e-4 * std::fabs(plain[i])))
      FAIL("number " << i << " is " << got[i] << ", of all logits " << plain[i]);
  const int threads = num_threads();
  for (const int n : {1, 3}) {
    set_num_threads(n);
    CHECK(run(fused) == got);
  }
  set_num_threads(threads);
}

TEST_CASE("linear_cross_entropy: classes that a bias of -inf rules out, by the tile and all of them") {
  const int64_t rows = 6, dim = 5, classes = 9000;  // several tiles on every device
  const Tensor x = normal({rows, dim}, 0, 1, 1, 1), w = normal({classes, dim}, 0, 0.5, 1, 2);
  std::vector<int32_t> labels(size_t(rows), int32_t(classes - 3));
  const auto run = [&](Device device, bool fused, int64_t out, const std::vector<int32_t>& y) {
    std::vector<double> bias(size_t(classes), 0.25);
    std::fill_n(bias.begin(), out, -INFINITY);
    std::vector<Tensor> leaves = {x.to(device).detach(), w.to(device).detach(),
                                  from_vector(bias, {classes}).to(DType::f32).to(device)};
    for (Tensor& t : leaves) t.requires_grad();
    const Tensor on_device = from_vector(y, {rows}, device);
    const Tensor loss = fused ? linear_cross_entropy(leaves[0], leaves[1], leaves[2], on_device)
                              : cross_entropy(linear(leaves[0], leaves[1], leaves[2]), on_device);
    loss.backward();
    std::vector<double> all = {loss.item()};
    for (const Tensor& t : leaves)
      for (const double g : t.grad().to_vector()) all.push_back(g);
    return all;
  };
  std::vector<Device> devices = {cpu};
  if (cuda::available()) devices.push_back(cuda_device());
  for (const Device device : devices) {
    CAPTURE(device.name());
    for (const int64_t out : {100, 5000, 8990}) {
      CAPTURE(out);
      const std::vector<double> got = run(device, true, out, labels), want = run(cpu, false, out, labels);
      REQUIRE(got.size() == want.size());
      REQUIRE(std::isfinite(want[0]));
      for (size_t i = 0; i < got.size(); ++i)
        if (!(std::fabs(got[i] - want[i]) <= 1e-7 + 1e-4 * std::fabs(want[i])))
          FAIL("number " << i << " is " << got[i] << ", of all logits " << want[i]);
    }
    // A label that is ruled out; and where no class is left there is no loss, as without tiles.
    CHECK(run(device, true, 100, std::vector<int32_t>(size_t(rows), 7))[0] == INFINITY);
    CHECK(std::isnan(run(cpu, false, classes, labels)[0]));
    CHECK(std::isnan(run(device, true, classes, labels)[0]));
  }
}

TEST_CASE("linear_log_prob: of every row, 0 where ignored, and far from overflow") {
  const Tensor x = normal({10, 6}, 0, 30, 1, 1), w = normal({5000, 6}, 0, 5, 1, 2),
               labels = some_labels(10, 5000);
  const std::vector<double> got = linear_log_prob(x, w, {}, labels).to_vector(),
                            all = log_softmax(linear(x, w)).to_vector(), y = labels.to_vector();
  REQUIRE(got.size() == 10);
  for (size_t i = 0; i < 10; ++i)
    CHECK(got[i] == doctest::Approx(y[i] < 0 ? 0 : all[i * 5000 + size_t(y[i])]).epsilon(1e-5));
}

TEST_CASE("labels of an adaptive softmax's parts") {
  const Tensor labels = from_vector<int32_t>({0, 4, -1, 5, 9, 10, 29, -1}, {2, 4});
  CHECK(label_count(labels).item() == 6);
  CHECK(label_count(labels, 4).item() == 7);
  CHECK(head_labels(labels, {5, 10}, 30).to_vector() == std::vector<double>{0, 4, -1, 5, 5, 6, 6, -1});
  CHECK(labels_within(labels, 5, 10).to_vector() == std::vector<double>{-1, -1, -1, 0, 4, -1, -1, -1});
  const Tensor floating = zeros({3});
  CHECK_THROWS_WITH_AS(label_count(floating), doctest::Contains("need integers"), Error);
  CHECK_THROWS_WITH_AS(labels_within(floating, 5, 10), doctest::Contains("need integers"), Error);
  CHECK_THROWS_WITH_AS(head_labels(floating, {5, 10}, 30), doctest::Contains("need integers"), Error);
}

TEST_CASE("linear_cross_entropy: errors") {
  const Tensor x = zeros({3, 4}), w = zeros({5, 4}), y = from_vector<int32_t>({0, 1, 4}, {3});
  CHECK_THROWS_AS(linear_cross_entropy(x, zeros({5, 3}), {}, y), Error);
  CHECK_THROWS_AS(linear_cross_entropy(x, w, zeros({4}), y), Error);
  CHECK_THROWS_AS(linear_cross_entropy(x, w, {}, from_vector<int32_t>({0, 1}, {2})), Error);
  CHECK_THROWS_AS(linear_cross_entropy(x, w, {}, from_vector<int32_t>({0, 1, 5}, {3})), Error);
  CHECK_THROWS_AS(linear_cross_entropy(x, w, {}, from_vector<int32_t>({0, 1, -2}, {3})), Error);
  CHECK_THROWS_AS(linear_cross_entropy(x, w, {}, zeros({3})), Error);
}
