#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "engine/cpu/rows.h"
#include "tests/engine/cpu_rows_test.h"

namespace pursuit {
namespace {

using namespace cpu_rows_test;

TEST_CASE("cpu rows: softmax_rows and softmax_again_rows") {
  for_each_size([](const RowKernels<float>& kernels, int64_t cols) {
    for (int64_t causal : {int64_t{-1}, int64_t{0}, int64_t{3}}) {
      CAPTURE(causal);
      Floats s = Floats(6, cols).fill(normal(1, 4.0));
      if (cols > 6) {
        s(0, 1) = s(1, cols - 1) = -kInf;
        for (int64_t j = 0; j < cols; ++j) s(2, j) = -kInf;
        for (int64_t j = 0; j < cols; ++j) s(3, j) -= 1e4f;
        s(4, 4) = kNan;
      }
      Floats given = s, again = s;
      Floats stats(1, 12);
      kernels.softmax_rows(s.data(), 6, cols, s.ld, stats.data(), causal);
      std::vector<std::vector<double>> want;
      for (int64_t i = 0; i < 6; ++i) {
        const int64_t visible = causal < 0 ? cols : std::min(cols, i + causal + 1);
        double log_sum = 0.0;
        want.push_back(softmax(given, i, visible, &log_sum));
        const bool masked = log_sum == -kInf;
        CHECK(close(stats[2 * i + 1], masked ? 0.0 : std::exp(static_cast<double>(stats[2 * i]) - log_sum),
                    1e-6, 0.0));
      }
      CHECK(stats.intact());
      check_matrix(
          s, [&](int64_t i, int64_t j) { return want[i][j]; }, 2e-6, 1e-12);
      kernels.softmax_again_rows(again.data(), 6, cols, again.ld, stats.data(), causal);
      for (int64_t i = 0; i < 6; ++i)
        for (int64_t j = 0; j < cols; ++j)
          CHECK((again(i, j) == s(i, j) || (std::isnan(again(i, j)) && std::isnan(s(i, j)))));
      kernels.softmax_rows(given.data(), 6, cols, given.ld, nullptr, causal);
      check_matrix(
          given, [&](int64_t i, int64_t j) { return want[i][j]; }, 2e-6, 1e-12);
    }
  });
}

// The results of a run that rounds are those of one that does not, rounded.
void check_rounded(const RowKernels<float>& kernels, Matrix<uint16_t>& got, Floats& wide) {
  std::vector<uint16_t> want(static_cast<size_t>(wide.cols));
  for (int64_t i = 0; i < wide.rows; ++i) {
    kernels.f32_to_bf16(&wide(i, 0), want.data(), wide.cols);
    for (int64_t j = 0; j < wide.cols; ++j) CHECK(got(i, j) == want[static_cast<size_t>(j)]);
  }
  CHECK(got.intact());
}

// Weights and gradients for one setting, and both rounded.
void check_attention(const RowKernels<float>& kernels, int64_t cols, int64_t causal, bool has_mask,
                     bool clips) {
  Floats scores = Floats(6, cols).fill(normal(4, 3.0)), mask = Floats(6, cols).fill(normal(5)),
         upstream = Floats(6, cols).fill(normal(6));
  for (int64_t j = 0; j < cols; ++j) mask(1, j) = j % 3 == 0 ? -kInf : 0.0f;
  for (int64_t j = 0; j < cols; ++j) mask(2, j) = -kInf;
  const AttentionRows<float> map{.scale = -0.7f,
                                 .causal = causal,
                                 .mask = has_mask ? mask.data() : nullptr,
                                 .ld_mask = mask.ld,
                                 .gamma = clips ? -0.01f : 0.0f,
                                 .zeta = clips ? 1.003f : 1.0f};
  const double stretch = static_cast<double>(map.zeta) - map.gamma;
  Floats mapped = scores;  // scale S + mask
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < cols; ++j)
      mapped(i, j) = map.scale * scores(i, j) + (has_mask ? mask(i, j) : 0.0f);
  std::vector<std::vector<double>> p, slope;
  std::vector<double> dot;
  for (int64_t i = 0; i < 6; ++i) {
    p.push_back(softmax(mapped, i, causal < 0 ? cols : std::min(cols, i + causal + 1)));
    slope.emplace_back();
    dot.push_back(0);
    for (int64_t j = 0; j < cols; ++j) {
      const double y = stretch * p[i][j] + map.gamma;
      slope[i].push_back(y < 0 || y > 1 ? 0.0 : stretch);
      dot[i] += p[i][j] * slope[i][j] * upstream(i, j);
    }
  }

  Floats weights = scores, again = scores, d = upstream, stats(1, 12);
  kernels.attention_rows(weights.data(), 6, cols, weights.ld, map, stats.data(), nullptr);
  check_matrix(
      weights, [&](int64_t i, int64_t j) { return std::clamp(stretch * p[i][j] + map.gamma, 0.0, 1.0); },
      4e-6, 1e-8);
  CHECK(stats.intact());
  kernels.attention_grad_rows(again.data(), d.data(), 6, cols, d.ld, map, stats.data(), nullptr, nullptr);
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < cols; ++j) CHECK(again(i, j) == weights(i, j));
  CHECK(again.intact());
  check_matrix(
      d, [&](int64_t i, int64_t j) { return map.scale * p[i][j] * (slope[i][j] * upstream(i, j) - dot[i]); },
      4e-6, 1e-6);

  Matrix<uint16_t> rounded(6, cols), rounded_again(6, cols), rounded_d(6, cols);
  Floats s = scores, s_again = scores, g = upstream;
  kernels.attention_rows(s.data(), 6, cols, s.ld, map, nullptr, rounded.data());
  kernels.attention_grad_rows(s_again.data(), g.data(), 6, cols, g.ld, map, stats.data(),
                              rounded_again.data(), rounded_d.data());
  check_rounded(kernels, rounded, weights);
  check_rounded(kernels, rounded_again, weights);
  check_rounded(kernels, rounded_d, d);
  CHECK(s.intact());
  CHECK(s_again.intact());
  CHECK(g.intact());
}

TEST_CASE("cpu rows: attention_rows and attention_grad_rows") {
  for_each_size([](const RowKernels<float>& kernels, int64_t cols) {
    for (const int64_t causal : {int64_t{-1}, int64_t{2}})
      for (const bool has_mask : {false, true})
        for (const bool clips : {false, true}) {
          CAPTURE(causal);
          CAPTURE(has_mask);
          CAPTURE(clips);
          check_attention(kernels, cols, causal, has_mask, clips);
        }
  });
}

TEST_CASE("cpu rows: softmax_grad_rows, clipped softmax") {
  for_each_size([](const RowKernels<float>& kernels, int64_t cols) {
    Floats p = Floats(4, cols).fill(normal(2, 2.0)), d = Floats(4, cols).fill(normal(3));
    kernels.softmax_rows(p.data(), 4, cols, p.ld, nullptr, -1);
    Floats given = d;
    kernels.softmax_grad_rows(p.data(), d.data(), 4, cols, d.ld);
    std::array<double, 4> dot{};
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < cols; ++j) dot[i] += static_cast<double>(p(i, j)) * given(i, j);
    check_matrix(
        d, [&](int64_t i, int64_t j) { return p(i, j) * (given(i, j) - dot[i]); }, 1e-6, 1e-6);

    const float gamma = -0.01f, zeta = 1.003f;
    const double stretch = static_cast<double>(zeta) - gamma;
    if (cols > 0) p(0, 0) = 1.0f;
    Floats clipped = p, slope = given;
    kernels.clipped_softmax_rows(clipped.data(), 4, cols, clipped.ld, gamma, zeta);
    check_matrix(
        clipped, [&](int64_t i, int64_t j) { return std::clamp(stretch * p(i, j) + gamma, 0.0, 1.0); }, 1e-6,
        1e-8);
    kernels.clipped_softmax_grad_rows(p.data(), slope.data(), 4, cols, slope.ld, gamma, zeta);
    check_matrix(
        slope,
        [&](int64_t i, int64_t j) {
          const double y = stretch * p(i, j) + gamma;
          return y < 0.0 || y > 1.0 ? 0.0 : stretch * given(i, j);
        },
        1e-6, 0.0);
  });
}

}  // namespace
}  // namespace pursuit
