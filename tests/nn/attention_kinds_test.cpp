#include <doctest/doctest.h>

#include <cmath>

#include "engine/solve/gradcheck.h"
#include "nn/attention/functions.h"

using namespace pursuit;

namespace {

double feature(double x) { return x > 0 ? x + 1 : std::exp(x); }

}  // namespace

TEST_CASE("linear attention: the sums of its definition") {
  const int64_t batch = 2, tokens = 5, heads = 3, width = 4;
  const Tensor qkv = uniform({batch, tokens, 3, heads, width}, -2, 2, 1, 1, DType::f64);
  const std::vector<double> x = qkv.to_vector(), y = nn::linear_attention(qkv).to_vector();
  const auto at = [&](int64_t b, int64_t n, int64_t part, int64_t h, int64_t d) {
    return x[size_t((((b * tokens + n) * 3 + part) * heads + h) * width + d)];
  };
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t n = 0; n < tokens; ++n)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t d = 0; d < width; ++d) {
          double above = 0, below = 0;
          for (int64_t m = 0; m < tokens; ++m) {
            double weight = 0;
            for (int64_t e = 0; e < width; ++e)
              weight += feature(at(b, n, 0, h, e)) * feature(at(b, m, 1, h, e));
            above += weight * at(b, m, 2, h, d);
            below += weight;
          }
          CHECK(y[size_t(((b * tokens + n) * heads + h) * width + d)] ==
                doctest::Approx(above / below).epsilon(1e-12));
        }
}

TEST_CASE("linear attention: its gradient, and that of the feature map at 0") {
  const auto f = [](const std::vector<Tensor>& in) { return nn::linear_attention(in[0]); };
  const GradientReport report = check_gradient(f, {uniform({1, 4, 3, 2, 3}, -2, 2, 1, 1)});
  CHECK_MESSAGE(report.ok, report.message);
  // elu + 1 is smooth at 0, although it is made of two pieces there.
  const GradientReport zero = check_gradient(
      [](const std::vector<Tensor>& in) {
        return nn::linear_attention(concat({in[0], uniform({1, 3, 2, 1, 2}, -1, 1, 1, 1, DType::f64)}, 2));
      },
      {zeros({1, 3, 1, 1, 2})});
  CHECK_MESSAGE(zero.ok, zero.message);
}

TEST_CASE("attention on smoothed keys: the sums of its definition") {
  const int64_t tokens = 4, heads = 2, width = 3;
  const double a = 0.375;  // the same number in f32
  const Tensor kv = uniform({1, tokens, 2, heads, width}, -2, 2, 1, 1, DType::f64);
  const std::vector<double> x = kv.to_vector();
  const auto at = [&](int64_t n, int64_t part, int64_t h, int64_t d) {
    return x[size_t(((n * 2 + part) * heads + h) * width + d)];
  };
  // For query i, the mean of the rows by the softmax of their products with q.
  const auto mean = [&](const std::vector<double>& q, const auto& key, const auto& row, int64_t seen) {
    std::vector<double> sum(size_t(width), 0.0);
    double total = 0;
    for (int64_t m = 0; m < seen; ++m) {
      double product = 0;
      for (int64_t d = 0; d < width; ++d) product += q[size_t(d)] * key(m, d);
      const double weight = std::exp(product / std::sqrt(double(width)));
      total += weight;
      for (int64_t d = 0; d < width; ++d) sum[size_t(d)] += weight * row(m, d);
    }
    for (double& s : sum) s /= total;
    return sum;
  };
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    const auto kind = nn::attention_kind("smoothed").make({heads * width, heads, tokens, causal}, {});
    const auto parameters = kind->parameters();
    REQUIRE(parameters.size() == 1);
    *parameters[0].tensor = full({1}, a);
    const std::vector<double> y = kind->mix(kv, {}).to_vector();
    for (int64_t h = 0; h < heads; ++h) {
      const auto key = [&](int64_t m, int64_t d) { return at(m, 0, h, d); };
      const auto value = [&](int64_t m, int64_t d) { return at(m, 1, h, d); };
      std::vector<std::vector<double>> smoothed;
      for (int64_t n = 0; n < tokens; ++n) {
        std::vector<double> own;
        for (int64_t d = 0; d < width; ++d) own.push_back(key(n, d));
        smoothed.push_back(mean(own, key, key, causal ? n + 1 : tokens));
        for (size_t d = 0; d < own.size(); ++d)
          smoothed.back()[d] = (1 - a) * own[d] + a * smoothed.back()[d];
      }
      const auto smooth = [&](int64_t m, int64_t d) { return smoothed[size_t(m)][size_t(d)]; };
      for (int64_t n = 0; n < tokens; ++n) {
        const auto wanted = mean(smoothed[size_t(n)], smooth, value, causal ? n + 1 : tokens);
        for (int64_t d = 0; d < width; ++d)
          CHECK(y[size_t((n * heads + h) * width + d)] == doctest::Approx(wanted[size_t(d)]).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("attention kinds: shapes are checked") {
  const Tensor qkv = zeros({2, 5, 3, 2, 4}), kv = zeros({2, 5, 2, 2, 4});
  CHECK_THROWS_AS(nn::linear_attention(kv), Error);
  CHECK_THROWS_AS(nn::linear_attention(zeros({2, 5, 24})), Error);
  CHECK_THROWS_AS(nn::scaled_attention(kv, nn::ScaledVariant::alpha, zeros({1})), Error);
  CHECK_THROWS_AS(nn::scaled_attention(qkv, nn::ScaledVariant::alpha, zeros({2})), Error);
  CHECK_THROWS_AS(nn::scaled_attention(qkv, nn::ScaledVariant::s, zeros({2, 4, 4})), Error);
  CHECK(nn::scaled_attention(kv, nn::ScaledVariant::alpha_sym, zeros({1})).shape() == Shape{2, 5, 8});
  CHECK_THROWS_AS(nn::gated_attention(qkv, zeros({2, 5, 2, 4}), zeros({2, 4}), zeros({2})), Error);
  CHECK_THROWS_AS(nn::gated_attention(qkv, zeros({2, 2, 5, 4}), zeros({4}), zeros({2})), Error);
}
