#include "engine/core/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/ops.h"

using namespace pursuit;

namespace {

using Values = std::vector<double>;

Tensor counting(const Shape& shape, DType dtype = DType::f32) {
  return arange(shape.numel(), DType::i64).to(dtype).reshape(shape);
}

}  // namespace

TEST_CASE("tensor: a new one is contiguous and says what it is") {
  const Tensor t = counting({2, 3});
  CHECK(t.is_contiguous());
  CHECK(t.strides() == Shape{3, 1});
  CHECK(t.numel() == 6);
  CHECK(t.bytes() == 24);
  CHECK(t.size(-1) == 3);
  CHECK(t.str() == "f32[2, 3] on cpu");
  CHECK(t.to_vector() == Values{0, 1, 2, 3, 4, 5});
  CHECK(Tensor().str() == "undefined tensor");
  CHECK_THROWS_AS(t.size(2), Error);
  CHECK_THROWS_AS(t.data<double>(), Error);
}

TEST_CASE("tensor: views share storage and walk it by strides") {
  const Tensor t = counting({2, 3, 4});
  const Tensor p = t.permute({2, 0, 1});
  CHECK(p.storage() == t.storage());
  CHECK(p.shape() == Shape{4, 2, 3});
  CHECK(p.strides() == Shape{1, 12, 4});
  CHECK(!p.is_contiguous());
  CHECK(p.contiguous().is_contiguous());
  Values expected;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 2; ++j)
      for (int k = 0; k < 3; ++k) expected.push_back(j * 12 + k * 4 + i);
  CHECK(p.to_vector() == expected);
  CHECK(p.contiguous().to_vector() == expected);
  CHECK(t.transpose(0, -1).shape() == Shape{4, 3, 2});

  const Tensor s = t.slice(1, 1, 3).slice(-1, -2, 4);
  CHECK(s.shape() == Shape{2, 2, 2});
  CHECK(s.offset() == 6);
  CHECK(s.to_vector() == Values{6, 7, 10, 11, 18, 19, 22, 23});
  CHECK(t.select(0, -1).select(0, 1).to_vector() == Values{16, 17, 18, 19});
  CHECK_THROWS_AS(t.slice(1, 2, 1), Error);
  CHECK_THROWS_AS(t.slice(1, 0, 4), Error);
  CHECK_THROWS_AS(t.select(2, 4), Error);
  CHECK_THROWS_AS(t.permute({0, 1}), Error);
  CHECK_THROWS_AS(t.permute({0, 1, 1}), Error);
}

TEST_CASE("tensor: reshape is a view where strides allow one, else a copy") {
  const Tensor t = counting({4, 6});
  CHECK(t.reshape({2, 2, 3, 2}).storage() == t.storage());
  CHECK(t.reshape({-1, 8}).shape() == Shape{3, 8});
  const Tensor left = t.slice(1, 0, 4);
  CHECK(left.reshape({2, 2, 2, 2}).storage() == t.storage());
  CHECK(left.reshape({2, 2, 2, 2}).to_vector() == left.to_vector());
  CHECK(left.reshape({16}).storage() != t.storage());
  CHECK(left.reshape({16}).to_vector() == left.to_vector());
  CHECK(t.transpose(0, 1).reshape({24}).to_vector() == t.transpose(0, 1).to_vector());
  CHECK(full({1}, 7).reshape({}).item() == 7);
  CHECK_THROWS_AS(t.reshape({5, 5}), Error);
  CHECK_THROWS_AS(t.reshape({-1, -1}), Error);
  CHECK_THROWS_AS(t.reshape({-1, 7}), Error);
}

TEST_CASE("tensor: broadcasting follows NumPy") {
  const Tensor column = counting({3, 1}), row = counting({4});
  const Tensor y = column * 10.0 + row;
  CHECK(y.shape() == Shape{3, 4});
  CHECK(y.to_vector() == Values{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23});
  const Tensor wide = row.expand({2, 3, 4});
  CHECK(wide.strides() == Shape{0, 0, 1});
  CHECK(wide.storage() == row.storage());
  CHECK((counting({0, 3}) + counting({3})).shape() == Shape{0, 3});
  CHECK_THROWS_AS(counting({3}) + counting({4}), Error);
  CHECK_THROWS_AS(row.expand({3}), Error);
  CHECK_THROWS_AS(counting({3}) + counting({3}, DType::f64), Error);
}

TEST_CASE("tensor: sizes are checked") {
  CHECK_THROWS_AS(empty({-1}), Error);
  CHECK_THROWS_AS(empty({int64_t(1) << 40, int64_t(1) << 40}), Error);
  CHECK_THROWS_AS(empty({std::numeric_limits<int64_t>::max()}), Error);
  CHECK_THROWS_AS(empty({std::numeric_limits<int64_t>::max() / 8}, DType::f64), Error);
  CHECK_THROWS_AS(empty({1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
  CHECK_THROWS_AS(from_vector<float>({1, 2}, {3}), Error);
  CHECK_THROWS_AS(counting({2}).item(), Error);
  CHECK(empty({0, 5}).to_vector().empty());
  CHECK(zeros({}).item() == 0);
}

TEST_CASE("tensor: bf16 rounds to nearest even and keeps what is special") {
  const auto round = [](float v) { return upcast(downcast<bf16>(v)); };
  CHECK(round(1.0f) == 1.0f);
  CHECK(round(1.0f + 0x1p-8f) == 1.0f);                       // halfway, to even
  CHECK(round(1.0f + 3 * 0x1p-8f) == 1.0f + 0x1p-6f);         // halfway, to even
  CHECK(round(1.0f + 0x1p-8f + 0x1p-20f) == 1.0f + 0x1p-7f);  // above halfway
  CHECK(std::isnan(round(NAN)));
  CHECK(round(INFINITY) == INFINITY);
  CHECK(std::isinf(round(std::numeric_limits<float>::max())));
  CHECK(std::signbit(round(-0.0f)));
  const Tensor t = from_vector<float>({1.00390625f, -3}, {2}).to(DType::bf16);
  CHECK(t.dtype() == DType::bf16);
  CHECK(t.to(DType::f64).to_vector() == Values{1, -3});
}

TEST_CASE("tensor: values are copied between shapes, dtypes and layouts") {
  const Tensor to = zeros({3, 2}, DType::f64), from = counting({2, 3});
  copy_values(to.transpose(0, 1), from);
  CHECK(to.to_vector() == Values{0, 3, 1, 4, 2, 5});
  CHECK_THROWS_AS(copy_values(to, from), Error);
  CHECK(from_vector<int64_t>({1, -2}, {2}).to(DType::f32).to(DType::i32).to_vector() == Values{1, -2});
  CHECK(full({2}, 3, DType::u8).to_vector() == Values{3, 3});
}

TEST_CASE("tensor: concat and stack") {
  const Tensor a = counting({2, 2}), b = a + 10.0;
  CHECK(concat({a, b}, 0).to_vector() == Values{0, 1, 2, 3, 10, 11, 12, 13});
  CHECK(concat({a, b}, -1).to_vector() == Values{0, 1, 10, 11, 2, 3, 12, 13});
  CHECK(stack({a, b}, 1).shape() == Shape{2, 2, 2});
  CHECK(stack({a, b}, 1).to_vector() == Values{0, 1, 10, 11, 2, 3, 12, 13});
  CHECK_THROWS_AS(concat({a, counting({3, 3})}, 0), Error);
  CHECK_THROWS_AS(stack({}, 0), Error);
  CHECK(stack({a, b}, -1).to_vector() == stack({a, b}, 2).to_vector());
  for (const int dim : {-4, 3, 8})
    CHECK_THROWS_WITH_AS(stack({a, b}, dim), doctest::Contains("got dimension"), Error);
}

TEST_CASE("tensor: matmul of strided and broadcast matrices") {
  const Tensor a = counting({2, 1, 2, 3}), b = counting({4, 3});
  const Tensor y = matmul(a, b.transpose(0, 1).slice(1, 1, 3));
  CHECK(y.shape() == Shape{2, 1, 2, 2});
  const Values av = a.to_vector(), bv = b.to_vector();
  Values expected;
  for (size_t r = 0; r < 4; ++r)
    for (size_t c = 1; c < 3; ++c) {
      double s = 0;
      for (size_t k = 0; k < 3; ++k) s += av[r * 3 + k] * bv[c * 3 + k];
      expected.push_back(s);
    }
  CHECK(y.to_vector() == expected);
  CHECK(matmul(zeros({2, 0}), zeros({0, 3})).to_vector() == Values(6, 0));
  CHECK_THROWS_AS(matmul(a, a), Error);
}
