#include <doctest/doctest.h>

#include <sstream>

#include "engine/ops.h"

using namespace pursuit;

namespace {

std::string printed(const Tensor& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}
Tensor of(const std::vector<float>& values) { return from_vector(values, {int64_t(values.size())}); }

}  // namespace

TEST_CASE("face: tensors are printed with values, shape and type; long ones in short") {
  CHECK(printed(Tensor()) == "undefined tensor");
  CHECK(printed(full({}, 2.5)) == "2.5 f32[] on cpu");
  CHECK(printed(of({1, -2, 0.25f})) == "[1, -2, 0.25] f32[3] on cpu");
  CHECK(printed(from_vector(std::vector<int32_t>{1, 2, 3, 4}, {2, 2})) ==
        "[[1, 2],\n [3, 4]] i32[2, 2] on cpu");
  CHECK(printed(arange(100)) == "[0, 1, 2, ..., 97, 98, 99] i64[100] on cpu");
  CHECK(printed(from_vector(std::vector<int64_t>{9007199254740993, 123456789}, {2})) ==
        "[9007199254740993, 123456789] i64[2] on cpu");
  CHECK(printed(empty({0, 3})) == "[] f32[0, 3] on cpu");
  CHECK(printed(arange(8).reshape({2, 2, 2})) ==
        "[[[0, 1],\n  [2, 3]],\n\n [[4, 5],\n  [6, 7]]] i64[2, 2, 2] on cpu");
}

TEST_CASE("face: numbers stand on either side, assignments keep the tape") {
  Tensor w = of({1, 2, 4});
  w.requires_grad();
  Tensor y = 1.0 - w;
  y += 8 / w;
  y *= w;
  y -= 2;
  y /= 2;
  CHECK(y.to_vector() == std::vector<double>{3, 2, -3});  // ((1 - w + 8 / w) w - 2) / 2
  y.sum().backward();
  CHECK(w.grad().to_vector() == std::vector<double>{-0.5, -1.5, -3.5});  // (1 - 2 w) / 2
  const Tensor kept = w;
  w *= 2;
  CHECK(kept.to_vector() == std::vector<double>{1, 2, 4});
}

TEST_CASE("face: rows, sums and extremes as methods") {
  const Tensor x = from_vector(std::vector<float>{1, 5, 2, 5, 0, -3}, {2, 3});
  CHECK(x[1].to_vector() == std::vector<double>{5, 0, -3});
  CHECK(x[-1][0].item() == 5);
  CHECK(x.sum().item() == 10);
  CHECK(x.sum({0}).to_vector() == std::vector<double>{6, 5, -1});
  CHECK(x.mean({1}, true).shape() == Shape{2, 1});
  CHECK(x.max().item() == 5);
  CHECK(x.min().item() == -3);
  const Extremes rows = max_along(x, 1);
  CHECK(rows.values.to_vector() == std::vector<double>{5, 5});
  CHECK(rows.indices.to_vector() == std::vector<double>{1, 0});
  CHECK(min_along(x, 0, true).indices.shape() == Shape{1, 3});
  CHECK_THROWS_WITH_AS(x[2], doctest::Contains("index 2"), Error);
}

TEST_CASE("face: of equals the first is the largest and gets the gradient") {
  Tensor x = of({2, 7, 7, 1});
  x.requires_grad();
  const Extremes top = max_along(x, 0);
  CHECK(top.indices.item() == 1);
  top.values.backward();
  CHECK(x.grad().to_vector() == std::vector<double>{0, 1, 0, 0});
}

TEST_CASE("face: comparisons are u8 and broadcast") {
  const Tensor a = of({1, 2, 3});
  CHECK((a < 2).dtype() == DType::u8);
  CHECK((a < 2).to_vector() == std::vector<double>{1, 0, 0});
  CHECK((a >= 2).to_vector() == std::vector<double>{0, 1, 1});
  CHECK((a == 2).to_vector() == std::vector<double>{0, 1, 0});
  CHECK((a != a.reshape({3, 1})).shape() == Shape{3, 3});
  CHECK((arange(3) > 1).to_vector() == std::vector<double>{0, 0, 1});
  CHECK((a == of({NAN, 2, NAN})).to_vector() == std::vector<double>{0, 1, 0});
  CHECK(where(a > 1, a, -a).to_vector() == std::vector<double>{-1, 2, 3});
  CHECK_THROWS_WITH_AS(a < arange(3), doctest::Contains("to()"), Error);
  CHECK_THROWS_WITH_AS(arange(3) < 0.5, doctest::Contains("number of its type"), Error);
}

TEST_CASE("face: comparisons of what requires a gradient are off the tape") {
  Tensor w = of({1, -2});
  w.requires_grad();
  CHECK_FALSE((w < 0).needs_grad());
  where(w > 0, w, 3 * w).sum().backward();
  CHECK(w.grad().to_vector() == std::vector<double>{1, 3});
}

TEST_CASE("lerp: weights 0 and 1 give the ends to the bit, without loss beside large numbers") {
  const Tensor a = of({0.1f, 1e8f}), b = of({0.3f, 1});
  CHECK(lerp(a, b, 0).to_vector() == a.to_vector());
  CHECK(lerp(a, b, 1).to_vector() == b.to_vector());
}

TEST_CASE("cumsum: the error does not grow with the length") {
  const int64_t n = 1 << 20;
  CHECK(cumsum(full({n}, 0.1), 0)[n - 1].item() == doctest::Approx(double(0.1f) * n).epsilon(1e-7));
}

TEST_CASE("gather: what does not fit is said") {
  const Tensor x = of({1, 2, 3});
  CHECK_THROWS_WITH_AS(gather(x, 0, from_vector(std::vector<int32_t>{0, 3}, {2})),
                       doctest::Contains("index 1 is 3, need 0 to 2"), Error);
  CHECK_THROWS_WITH_AS(gather(x, 0, x), doctest::Contains("need integers"), Error);
  CHECK_THROWS_WITH_AS(gather(x.reshape({1, 3}), 1, zeros({2, 1}, DType::i64)),
                       doctest::Contains("no larger size"), Error);
}
