#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/core/shapes_only.h"
#include "engine/ops.h"
#include "engine/ops/quantized.h"
#include "tests/message_of.h"

namespace pursuit {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

Tensor leaf(const std::vector<float>& values) {
  Tensor x = from_vector(values, {int64_t(values.size())});
  x.requires_grad();
  return x;
}

float first(const Tensor& x) { return x.data<float>()[0]; }

// Gradient of f at x; dy is infinite.
template <class F> float gradient_of_infinity(float at, const F& f) {
  const Tensor x = leaf({at});
  f(x).backward(full({1}, infinity));
  return first(x.grad());
}

}  // namespace

TEST_CASE("elementwise: what was cut off gets no gradient, not even of an infinite one") {
  const Tensor zero = full({1}, 0);
  CHECK(gradient_of_infinity(-1, [](const Tensor& x) { return relu(x); }) == 0);
  CHECK(gradient_of_infinity(-1, [](const Tensor& x) { return clamp(x, 0, 10); }) == 0);
  CHECK(gradient_of_infinity(-1, [&](const Tensor& x) { return maximum(x, zero); }) == 0);
  CHECK(gradient_of_infinity(1, [&](const Tensor& x) { return minimum(x, zero); }) == 0);
  CHECK(gradient_of_infinity(0.5, [](const Tensor& x) { return soft_threshold(x, full({1}, 1)); }) == 0);
  CHECK(gradient_of_infinity(1, [](const Tensor& x) { return relu(x); }) == infinity);
  // As in a loss: the guard of a logarithm.
  const Tensor x = leaf({-1, 2});
  sum(log(relu(x))).backward();
  CHECK(x.grad().to_vector() == std::vector<double>{0, 0.5});
}

TEST_CASE("elementwise: a NaN stays one, and both inputs of a maximum get its gradient") {
  CHECK(std::isnan(first(soft_threshold(full({1}, 0.5), full({1}, NAN)))));
  CHECK(std::isnan(first(soft_threshold(full({1}, NAN), full({1}, 0.5)))));
  CHECK(first(soft_threshold(full({1}, 0.5), full({1}, infinity))) == 0);
  for (const bool largest : {true, false}) {
    const Tensor a = leaf({NAN, 1, 3}), b = leaf({1, NAN, 3});
    const Tensor y = largest ? maximum(a, b) : minimum(a, b);
    CHECK(std::isnan(y.to_vector()[0]));
    CHECK(std::isnan(y.to_vector()[1]));
    sum(y).backward();
    CHECK(a.grad().to_vector() == std::vector<double>{1, 1, 0.5});
    CHECK(b.grad().to_vector() == std::vector<double>{1, 1, 0.5});
  }
}

TEST_CASE("elementwise: the sign of zero") {
  const Tensor zero = full({1}, 0), minus = full({1}, -0.0);
  CHECK(std::signbit(first(-zero)));
  CHECK_FALSE(std::signbit(first(-minus)));
  CHECK(std::signbit(first(minus * 1.0)));
  CHECK_FALSE(std::signbit(first(zero * 1.0)));
  CHECK_FALSE(std::signbit(first(abs(minus))));
}

TEST_CASE("elementwise: quotients are rounded once, and their gradients do not overflow on the way") {
  int64_t compared = 0;
  for (int a = 1; a <= 200; ++a)
    for (int c = 1; c <= 199; ++c) {
      ++compared;
      if (first(full({1}, a) * double(c) / double(c)) != float(a)) FAIL(a, " times and by ", c);
    }
  CHECK(compared == 39800);
  for (const int64_t n : {41, 55, 107, 1576}) CHECK(mean(ones({n})).item() == 1);
  for (const auto& [top, bottom] : {std::pair{1e-20f, 1e-20f}, {1e-25f, 1e-20f}, {1e20f, 1e20f}}) {
    const Tensor b = leaf({bottom});
    (from_vector(std::vector{top}, {1}) / b).backward(ones({1}));
    CHECK(first(b.grad()) == doctest::Approx(-double(top) / bottom / bottom).epsilon(1e-6));
  }
  const Tensor x = leaf({1, 2});
  (x / 3.0).backward(ones({2}));
  CHECK(first(x.grad()) == 1.0f / 3);
}

TEST_CASE("in place: a target that overlaps what is read is refused") {
  const Tensor x = from_vector(std::vector<float>{1, 2, 3, 4}, {2, 2});
  CHECK_THROWS_AS(copy_values(x, x.transpose(0, 1)), Error);
  CHECK_THROWS_AS(add_to(x, x.transpose(0, 1)), Error);
  CHECK_THROWS_AS(add_to(x, x.slice(0, 0, 1)), Error);
  const Tensor y = from_vector(std::vector<float>{1, 2, 3, 4, 5}, {5});
  CHECK_THROWS_AS(copy_values(y.slice(0, 1, 5), y.slice(0, 0, 4)), Error);
  CHECK_THROWS_AS(copy_values(y.slice(0, 0, 1).expand({3}), ones({3})), Error);
  CHECK_THROWS_AS(add_to(y.slice(0, 0, 1).expand({3}), ones({3})), Error);
  CHECK(message_of([&] { add_to(x, x.transpose(0, 1)); }).find("overlaps") != std::string::npos);
  // None of them wrote anything, and these are legal.
  CHECK(x.to_vector() == std::vector<double>{1, 2, 3, 4});
  add_to(x, x);
  copy_values(x, x);
  copy_values(x.slice(1, 0, 1), x.slice(1, 1, 2));
  copy_values(y.slice(0, 0, 2), y.slice(0, 2, 4));
  CHECK(x.to_vector() == std::vector<double>{4, 4, 8, 8});
  CHECK(y.to_vector() == std::vector<double>{3, 4, 3, 4, 5});
}

TEST_CASE("expand, scales and masks: what does not broadcast is refused") {
  CHECK_THROWS_AS(zeros({1, 3}).expand({-1, 3}), Error);
  CHECK_THROWS_AS(zeros({1}).expand({int64_t(1) << 40, int64_t(1) << 40}), Error);
  const Tensor x = zeros({2, 1000});
  CHECK_THROWS_AS(fake_quantize_rows(x, ones({2}), 8), Error);
  CHECK_THROWS_AS(fake_quantize_rows(zeros({3}), ones({2, 2, 3}), 8), Error);
  for (const int64_t bits : {0, 1, 9, 33}) CHECK_THROWS_AS(fake_quantize_rows(x, ones({2, 1}), bits), Error);
  CHECK(fake_quantize_rows(ones({2, 3}), ones({2, 1}), 2).to_vector() == std::vector<double>(6, 1.0));
  CHECK_THROWS_AS(attention(zeros({1, 2, 3, 1, 4}), {.gamma = NAN}), Error);
  const Tensor q = uniform({2, 3, 1, 4}, -1, 1, 1, 1), kv = uniform({2, 5, 2, 1, 4}, -1, 1, 1, 2);
  const Tensor mask = uniform({3, 5}, -1, 1, 1, 3);
  CHECK(cross_attention(q, kv, mask).to_vector() ==
        cross_attention(q, kv, mask.reshape({1, 3, 5})).to_vector());
  CHECK_THROWS_AS(cross_attention(q, kv, zeros({4, 5})), Error);
}

TEST_CASE("counters of random numbers lie together") {
  const Tensor pairs = from_vector(std::vector<int64_t>{5, 7, 0, 7}, {2, 2});
  const Tensor strided = pairs.select(1, 0), x = ones({4, 4});
  CHECK_THROWS_AS(dropout(x, 0.5, 1, 2, strided), Error);
  CHECK_THROWS_AS(drop_path(x, 0.5, 1, 2, strided), Error);
  CHECK_THROWS_AS(dropout(x, 0.5, 1, 2, zeros({2})), Error);
  CHECK(dropout(x, 0.5, 1, 2, strided.contiguous()).numel() == 16);
}

TEST_CASE("shapes only: values are not copied into memory that is not there") {
  const ShapesOnly shapes;
  CHECK(from_vector(std::vector<float>(3, 1.0f), {3}).shape() == Shape{3});
}

}  // namespace pursuit
