// Convolutions and pooling beyond the operators' samples: threads, instruction sets, special numbers, errors.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/cpu/parallel.h"
#include "engine/ops.h"
#include "tests/differences.h"

using namespace pursuit;

namespace {

struct Results {
  Tensor y, gx, gw, gb;
};

Results run(const Shape& of_x, const Shape& of_weight, const ConvOptions& options, DType dtype = DType::f32) {
  Tensor x = normal(of_x, 0, 1, 1, 1).to(dtype), w = normal(of_weight, 0, 0.2, 1, 2).to(dtype),
         b = normal({of_weight[0]}, 0, 1, 1, 3).to(dtype);
  for (Tensor* t : {&x, &w, &b}) t->requires_grad();
  const Tensor y = conv2d(x, w, b, options);
  y.backward(normal(y.shape(), 0, 1, 1, 4).to(dtype));
  return {y.detach(), x.grad(), w.grad(), b.grad()};
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.numel() > 0 && a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), size_t(a.bytes())) == 0;
}

// The largest difference relative to the largest number.
double apart(const Tensor& a, const Tensor& b) { return largest_difference(a, b) / largest_magnitude(b); }

struct Case {
  Shape x, weight;
  ConvOptions options;
};
// Larger than the blocks of matrix products.
const std::vector<Case> cases = {
    {{3, 40, 30, 28}, {50, 40, 3, 3}, {.padding = 1}},
    {{9, 64, 7, 7}, {100, 64, 3, 3}, {.padding = 1}},
    {{2, 3, 65, 61}, {24, 3, 7, 7}, {.stride = 2, .padding = 3}},
    {{3, 300, 14, 14}, {70, 300, 1, 1}, {}},
    {{3, 70, 15, 14}, {40, 70, 1, 1}, {.stride = 2}},
    {{2, 48, 20, 20}, {36, 12, 3, 3}, {.stride = {1, 2}, .padding = {2, 1}, .dilation = {2, 1}, .groups = 4}},
    {{3, 20, 33, 70}, {20, 1, 7, 7}, {.padding = 3, .groups = 20}},
    {{2, 20, 31, 30}, {20, 1, 5, 5}, {.stride = 2, .padding = 2, .groups = 20}},
};

}  // namespace

TEST_CASE("convolutions do not depend on the number of threads") {
  const int before = num_threads();
  for (const Case& c : cases) {
    set_num_threads(1);
    const Results one = run(c.x, c.weight, c.options);
    for (const int threads : {2, 5}) {
      set_num_threads(threads);
      const Results some = run(c.x, c.weight, c.options);
      CHECK(same_bits(some.y, one.y));
      CHECK(same_bits(some.gx, one.gx));
      CHECK(same_bits(some.gw, one.gw));
      CHECK(same_bits(some.gb, one.gb));
    }
  }
  set_num_threads(before);
}

TEST_CASE("f32 and bf16 convolutions agree with f64") {
  for (const Case& c : cases)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      // Sums of up to 10^4 terms: in f32 some hundred ulp at most; bf16 inputs are rounded, half an ulp each.
      const double bar = dtype == DType::f32 ? 2e-5 : 0x1p-6;
      const Results got = run(c.x, c.weight, c.options, dtype),
                    want = run(c.x, c.weight, c.options, DType::f64);
      CHECK(got.y.dtype() == dtype);
      CHECK(got.gw.dtype() == dtype);
      CHECK(apart(got.y, want.y) < bar);
      CHECK(apart(got.gx, want.gx) < bar);
      CHECK(apart(got.gw, want.gw) < bar);
      CHECK(apart(got.gb, want.gb) < bar);
    }
}

TEST_CASE("a NaN reaches the outputs whose windows it is in, and no others") {
  for (const int64_t groups : {1, 3}) {
    const Tensor x = zeros({1, 3, 9, 20});
    x.data<float>()[3 * 20 + 17] = NAN;
    const Tensor y = conv2d(x, ones({3, 3 / groups, 3, 3}), {}, {.padding = 1, .groups = groups});
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t i = 0; i < 9; ++i)
        for (int64_t j = 0; j < 20; ++j) {
          const bool within = std::abs(i - 3) <= 1 && std::abs(j - 17) <= 1 && (groups == 1 || c == 0);
          CHECK(std::isnan(y[0][c][i][j].item()) == within);
        }
  }
}

TEST_CASE("max pooling takes the first of equals, and a NaN for the largest") {
  Tensor x = from_vector<float>({1, 1, 0, 1, NAN, 2, -INFINITY, -INFINITY}, {1, 1, 2, 4});
  x.requires_grad();
  const Tensor y = max_pool2d(x, {2});
  CHECK(std::isnan(y[0][0][0][0].item()));
  CHECK(y[0][0][0][1].item() == 1);
  y.backward(from_vector<float>({3, 5}, {1, 1, 1, 2}));
  CHECK(x.grad().to_vector() == std::vector<double>{0, 0, 0, 5, 3, 0, 0, 0});

  Tensor equal = ones({1, 1, 2, 4});
  equal.requires_grad();
  max_pool2d(equal, {2}).backward(from_vector<float>({3, 5}, {1, 1, 1, 2}));
  CHECK(equal.grad().to_vector() == std::vector<double>{3, 0, 5, 0, 0, 0, 0, 0});

  const Tensor lowest =
      max_pool2d(full({1, 1, 2, 2}, -std::numeric_limits<double>::infinity()), {.kernel = 2, .padding = 1});
  for (const double v : lowest.to_vector()) CHECK(v == -INFINITY);
}

TEST_CASE("average pooling counts zeros beside the picture, or not") {
  const Tensor x = ones({1, 1, 3, 3});
  const AvgPoolOptions counted{.kernel = 3, .stride = 2, .padding = 1};
  AvgPoolOptions within = counted;
  within.count_include_pad = false;
  for (const double v : avg_pool2d(x, counted).to_vector()) CHECK(v == doctest::Approx(4.0 / 9));
  for (const double v : avg_pool2d(x, within).to_vector()) CHECK(v == 1);
}

TEST_CASE("convolutions and pooling refuse what they cannot take, in one line") {
  const Tensor x = zeros({2, 4, 8, 8}), w = zeros({6, 4, 3, 3});
  const auto refuses = [](const char* word, const auto& f) {
    try {
      f();
    } catch (const Error& e) {
      const std::string text = e.what();
      CHECK_MESSAGE(text.find(word) != std::string::npos, text);
      CHECK(text.find('\n') == std::string::npos);
      return;
    }
    FAIL_CHECK("no error: " << word);
  };
  CHECK(conv2d(x, zeros({0, 4, 3, 3})).shape() == Shape{2, 0, 6, 6});
  refuses("none above", [&] { conv2d(x, w, {}, {.stride = int64_t(1) << 30, .padding = int64_t(1) << 30}); });
  refuses("need [B, C, H, W]", [&] { conv2d(x[0], w); });
  refuses("one dtype", [&] { conv2d(x, w.to(DType::f64)); });
  refuses("groups divide", [&] { conv2d(x, w, {}, {.groups = 4}); });
  refuses("groups", [&] { conv2d(x, w, {}, {.groups = 0}); });
  refuses("bias is", [&] { conv2d(x, w, zeros({4})); });
  refuses("stride", [&] { conv2d(x, w, {}, {.stride = 0}); });
  refuses("padding", [&] { conv2d(x, w, {}, {.padding = -1}); });
  refuses("dilation", [&] { conv2d(x, w, {}, {.dilation = {1, 0}}); });
  refuses("fits", [&] { conv2d(x, w, {}, {.dilation = 4}); });
  refuses("fits", [&] { conv2d(x, zeros({6, 4, 9, 9})); });
  refuses("fits", [&] { conv2d(x, w, {}, {.dilation = int64_t(1) << 20}); });
  refuses("fits", [&] { conv2d(zeros({2, 4, 0, 8}), w, {}, {.padding = 2}); });
  refuses("kernel", [&] { conv2d(x, zeros({6, 4, 0, 3})); });
  refuses("undefined", [&] { conv2d(x, Tensor()); });
  refuses("half", [&] { max_pool2d(x, {.kernel = 2, .padding = 2}); });
  refuses("half", [&] { avg_pool2d(x, {.kernel = 3, .padding = {0, 2}}); });
  refuses("fits", [&] { max_pool2d(x, {9}); });
  refuses("kernel", [&] { avg_pool2d(x, {0}); });
  refuses("stride", [&] { max_pool2d(x, {.kernel = 2, .stride = {1, 0}}); });
  refuses("floating", [&] { max_pool2d(zeros({1, 1, 4, 4}, DType::i32), {2}); });
}
