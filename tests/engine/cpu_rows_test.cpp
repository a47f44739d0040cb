#include "tests/engine/cpu_rows_test.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/random.h"
#include "engine/cpu/rows.h"
#include "tests/differences.h"

namespace pursuit {
namespace {

using namespace cpu_rows_test;

double upper_tail(double x) { return 0.5 * std::erfc(x / std::sqrt(2.0)); }
double gelu(double x) { return x * upper_tail(-x); }
double gelu_slope(double x) { return upper_tail(-x) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI); }

TEST_CASE("cpu rows: choosing the instruction set") {
  CHECK(isa_supported("sse2"));
  CHECK_FALSE(isa_supported("neon"));
  CHECK(std::string(choose_rows("sse2").isa) == "sse2");
  CHECK(&choose_rows(nullptr) == &choose_rows(""));
  CHECK(&choose_rows(nullptr) == all_kernels().back());
  CHECK_THROWS_WITH_AS(choose_rows("avx9"), doctest::Contains("PURSUIT_ISA=avx9"), Error);
}

TEST_CASE("cpu rows: exp is within 2 ulp and right at the ends") {
  for (const RowKernels<float>* kernels : all_kernels()) {
    CAPTURE(std::string(kernels->isa));
    std::vector<float> x, y;
    for (double v = -87.0; v <= 88.0; v += 0.00037) x.push_back(static_cast<float>(v));
    for (double v = 1e-8; v < 1.0; v *= 1.7)
      x.insert(x.end(), {static_cast<float>(v), static_cast<float>(-v)});
    y.resize(x.size());
    kernels->exp(x.data(), y.data(), static_cast<int64_t>(x.size()));
    double worst = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
      const double error = std::abs(y[i] - exact) / ulp;
      worst = larger(worst, error);
    }
    MESSAGE(std::string(kernels->isa) << ": exp is off by at most " << worst << " ulp");
    CHECK(worst <= 2.0);

    const std::vector<float> edge = {-kInf, -1000.0f, -87.5f, 0.0f, 88.7f, 88.73f, 1e30f, kInf, kNan, -kNan};
    std::vector<float> got(edge.size());
    kernels->exp(edge.data(), got.data(), static_cast<int64_t>(edge.size()));
    const std::vector<double> want = {0,    0,    0,    1,    std::exp(static_cast<double>(88.7f)),
                                      kInf, kInf, kInf, kNan, kNan};
    for (size_t i = 0; i < edge.size(); ++i) {
      CAPTURE(edge[i]);
      CHECK(close(got[i], want[i], 1e-6, 0.0));
    }
  }
}

TEST_CASE("cpu rows: gelu is accurate, also far in the negative tail") {
  for (const RowKernels<float>* kernels : all_kernels()) {
    CAPTURE(std::string(kernels->isa));
    std::vector<float> x;
    for (double v = -13.0; v <= 13.0; v += 0.00013) x.push_back(static_cast<float>(v));
    const int64_t n = static_cast<int64_t>(x.size());
    std::vector<float> y(x.size()), slope(x.size(), 1.0f), again(x.size());
    kernels->gelu(x.data(), y.data(), n);
    kernels->gelu_grad_rows(x.data(), slope.data(), again.data(), 1, n, n, n, n);
    double phi_error = 0.0, tail_error = 0.0, slope_error = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      REQUIRE(std::isfinite(y[i]));
      if (x[i] != 0.0f)
        phi_error = larger(phi_error, std::abs(y[i] / static_cast<double>(x[i]) - upper_tail(-x[i])));
      if (x[i] < -1.0f && x[i] > -10.0f) tail_error = larger(tail_error, std::abs(y[i] / gelu(x[i]) - 1.0));
      slope_error = larger(slope_error, std::abs(slope[i] - gelu_slope(x[i])));
      REQUIRE(close(again[i], y[i], 3e-7, 0.0));
    }
    MESSAGE(std::string(kernels->isa) << ": Phi off by " << phi_error << ", gelu in [-10, -1] relatively by "
                                      << tail_error << ", slope by " << slope_error);
    CHECK(phi_error <= 2e-7);
    CHECK(tail_error <= 1e-5);
    CHECK(slope_error <= 4e-7);

    const std::vector<float> edge = {0.0f, kInf, kNan, 1e30f, -1e30f, -20.0f};
    std::vector<float> got(edge.size());
    kernels->gelu(edge.data(), got.data(), static_cast<int64_t>(edge.size()));
    const std::vector<double> want = {0, kInf, kNan, 1e30f, 0, 0};
    for (size_t i = 0; i < edge.size(); ++i) CHECK(close(got[i], want[i], 0.0, 0.0));
  }
}

TEST_CASE("cpu rows: bias_gelu_rows, gelu_grad_rows, sigmoid, tanh") {
  for_each_size([](const RowKernels<float>& kernels, int64_t cols) {
    Floats h = Floats(3, cols).fill(normal(4, 2.0)), bias = Floats(1, cols).fill(normal(5));
    Floats y(3, cols, true), given = h;
    kernels.bias_gelu_rows(h.data(), bias.data(), y.data(), 3, cols, h.ld, y.ld);
    check_matrix(
        h, [&](int64_t i, int64_t j) { return static_cast<double>(given(i, j)) + bias[j]; }, 1e-7, 1e-7);
    check_matrix(
        y, [&](int64_t i, int64_t j) { return gelu(h(i, j)); }, 1e-6, 1e-7);

    Floats d = Floats(3, cols, true).fill(normal(6)), dy = d, again(3, cols);
    kernels.gelu_grad_rows(h.data(), d.data(), again.data(), 3, cols, h.ld, d.ld, again.ld);
    auto slope = [&](int64_t i, int64_t j) { return dy(i, j) * gelu_slope(h(i, j)); };
    check_matrix(d, slope, 1e-6, 1e-6);
    check_matrix(
        again, [&](int64_t i, int64_t j) { return gelu(h(i, j)); }, 1e-6, 1e-7);
    d = dy;
    kernels.gelu_grad_rows(h.data(), d.data(), nullptr, 3, cols, h.ld, d.ld, 0);
    check_matrix(d, slope, 1e-6, 1e-6);

    Floats x = Floats(1, cols).fill(normal(7, 30.0)), s(1, cols), g = Floats(1, cols).fill(normal(8)),
           before = g;
    auto sigmoid = [&](int64_t, int64_t j) { return 1.0 / (1.0 + std::exp(-static_cast<double>(x[j]))); };
    kernels.sigmoid(x.data(), s.data(), cols);
    check_matrix(s, sigmoid, 1e-6, 1e-37);
    kernels.sigmoid_grad(s.data(), g.data(), cols);
    check_matrix(
        g, [&](int64_t, int64_t j) { return before[j] * s[j] * (1.0 - s[j]); }, 1e-6, 1e-37);

    for (const double width : {0.01, 0.6, 5.0}) {
      x.fill(normal(9, width));
      kernels.tanh(x.data(), s.data(), cols);
      check_matrix(
          s, [&](int64_t, int64_t j) { return std::tanh(static_cast<double>(x[j])); }, 2.4e-7, 1e-44);
    }
  });
}

TEST_CASE("cpu rows: bias_relu_rows, relu_grad_rows") {
  for_each_size([](const RowKernels<float>& kernels, int64_t cols) {
    Floats h = Floats(3, cols).fill(normal(41)), bias = Floats(1, cols).fill(normal(42)), given = h;
    if (cols > 0) h(2, cols - 1) = given(2, cols - 1) = kNan;
    kernels.bias_relu_rows(h.data(), bias.data(), 3, cols, h.ld);
    check_matrix(
        h,
        [&](int64_t i, int64_t j) {
          const double x = static_cast<double>(given(i, j)) + bias[j];
          return x < 0 ? 0 : x;
        },
        1e-7, 1e-7);
    Floats d = Floats(3, cols, true).fill(normal(43)), dy = d;
    kernels.relu_grad_rows(h.data(), d.data(), 3, cols, h.ld, d.ld);
    check_matrix(
        d, [&](int64_t i, int64_t j) { return h(i, j) > 0 ? dy(i, j) : 0.0; }, 0.0, 0.0);
  });
}

TEST_CASE("cpu rows: bias_rows, column_sums, abs_sum_rows") {
  for_each_size([](const RowKernels<float>& kernels, int64_t cols) {
    for (int64_t rows : {0, 1, 7, 29}) {
      CAPTURE(rows);
      Floats y = Floats(rows, cols).fill(normal(9)), residual = Floats(rows, cols, true).fill(normal(10));
      Floats bias = Floats(1, cols).fill(normal(11)), given = y;
      kernels.bias_rows(y.data(), bias.data(), residual.data(), rows, cols, y.ld, residual.ld);
      check_matrix(
          y,
          [&](int64_t i, int64_t j) { return static_cast<double>(given(i, j)) + bias[j] + residual(i, j); },
          1e-6, 1e-6);
      y = given;
      kernels.bias_rows(y.data(), bias.data(), nullptr, rows, cols, y.ld, 0);
      check_matrix(
          y, [&](int64_t i, int64_t j) { return static_cast<double>(given(i, j)) + bias[j]; }, 1e-6, 1e-6);

      std::vector<double> sums(static_cast<size_t>(cols));
      double absolute = 0.0;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < cols; ++j) {
          sums[j] += given(i, j);
          absolute += std::abs(given(i, j));
        }
      }
      Floats out(1, cols), start = bias;
      kernels.column_sums(given.data(), rows, cols, given.ld, out.data(), false);
      check_matrix(
          out, [&](int64_t, int64_t j) { return sums[j]; }, 1e-6, 4e-6);
      kernels.column_sums(given.data(), rows, cols, given.ld, bias.data(), true);
      check_matrix(
          bias, [&](int64_t, int64_t j) { return start[j] + sums[j]; }, 1e-6, 4e-6);
      CHECK(close(kernels.abs_sum_rows(given.data(), rows, cols, given.ld), absolute, 1e-6, 0.0));
    }
  });
}

TEST_CASE("cpu rows: layer norm and its gradient") {
  for_each_size([](const RowKernels<float>& kernels, int64_t cols) {
    const int64_t rows = 5;
    const double eps = static_cast<double>(1e-6f);
    Floats x = Floats(rows, cols, true).fill(normal(12));
    for (int64_t j = 0; j < cols; ++j) x(1, j) += 1000.0f;  // the variance must not be E[x^2] - E[x]^2
    Floats weight = Floats(1, cols).fill(normal(13)), bias = Floats(1, cols).fill(normal(14));
    Floats y(rows, cols, true), mean(1, rows), rstd(1, rows);
    kernels.layer_norm_rows(x.data(), weight.data(), bias.data(), y.data(), mean.data(), rstd.data(), rows,
                            cols, 1e-6f);
    std::vector<double> mu(rows), spread(rows);
    for (int64_t i = 0; i < rows && cols > 0; ++i) {
      for (int64_t j = 0; j < cols; ++j) mu[i] += x(i, j) / static_cast<double>(cols);
      for (int64_t j = 0; j < cols; ++j)
        spread[i] += std::pow(x(i, j) - mu[i], 2) / static_cast<double>(cols);
      spread[i] = 1.0 / std::sqrt(spread[i] + eps);
      CHECK(close(mean[i], mu[i], 5e-7, 1e-7));
      if (cols > 1) CHECK(close(rstd[i], spread[i], 1e-5, 0.0));
    }
    CHECK(mean.intact());
    CHECK(rstd.intact());
    // Row 1 has unit spread, and its mean of 1000 is known to 5e-7 relative.
    auto normalised = [&](int64_t i, int64_t j) { return (x(i, j) - mu[i]) * spread[i]; };
    if (cols > 1) {
      check_matrix(
          y, [&](int64_t i, int64_t j) { return normalised(i, j) * weight[j] + bias[j]; }, 1e-5, 2e-3);
    }
    Floats plain(rows, cols, true);
    kernels.layer_norm_rows(x.data(), weight.data(), bias.data(), plain.data(), nullptr, nullptr, rows, cols,
                            1e-6f);
    check_matrix(
        plain, [&](int64_t i, int64_t j) { return y(i, j); }, 0.0, 0.0);

    Floats dy = Floats(rows, cols, true).fill(normal(15)), dx(rows, cols, true);
    Floats dweight = Floats(1, cols).fill(normal(16)), dbias = Floats(1, cols).fill(normal(17));
    Floats dweight0 = dweight, dbias0 = dbias;
    kernels.layer_norm_grad_rows(x.data(), dy.data(), weight.data(), mean.data(), rstd.data(), dx.data(),
                                 dweight.data(), dbias.data(), rows, cols);
    // Uses the kernel's mean and rstd, which were checked above.
    auto n = [&](int64_t i, int64_t j) { return (static_cast<double>(x(i, j)) - mean[i]) * rstd[i]; };
    std::vector<double> g(rows), gn(rows);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        g[i] += static_cast<double>(dy(i, j)) * weight[j] / static_cast<double>(cols);
        gn[i] += static_cast<double>(dy(i, j)) * weight[j] * n(i, j) / static_cast<double>(cols);
      }
    }
    if (cols > 1) {
      check_matrix(
          dx,
          [&](int64_t i, int64_t j) {
            return rstd[i] * (static_cast<double>(dy(i, j)) * weight[j] - g[i] - n(i, j) * gn[i]);
          },
          1e-5, 1e-5);
    }
    auto over_rows = [&](auto term) {
      double sum = 0.0;
      for (int64_t i = 0; i < rows; ++i) sum += term(i);
      return sum;
    };
    check_matrix(
        dweight,
        [&](int64_t, int64_t j) {
          return dweight0[j] + over_rows([&](int64_t i) { return dy(i, j) * n(i, j); });
        },
        1e-6, 2e-6);
    check_matrix(
        dbias,
        [&](int64_t, int64_t j) {
          return dbias0[j] + over_rows([&](int64_t i) { return static_cast<double>(dy(i, j)); });
        },
        1e-6, 2e-6);
    Floats in_place = dy;
    kernels.layer_norm_grad_rows(x.data(), in_place.data(), weight.data(), mean.data(), rstd.data(),
                                 in_place.data(), dweight.data(), dbias.data(), rows, cols);
    check_matrix(
        in_place, [&](int64_t i, int64_t j) { return dx(i, j); }, 0.0, 0.0);
  });
}

TEST_CASE("cpu rows: moments, rows normalised by them, and the sums and gradient of that") {
  for_each_size([](const RowKernels<float>& kernels, int64_t n) {
    if (n == 0) return;
    for (const float offset : {0.0f, 1000.0f}) {  // the variance must not be E[x^2] - E[x]^2
      CAPTURE(offset);
      Floats x = Floats(1, n).fill(normal(12)), dy = Floats(1, n).fill(normal(13));
      for (int64_t j = 0; j < n; ++j) x[j] += offset;
      double mu = 0, variance = 0;
      for (int64_t j = 0; j < n; ++j) mu += x[j] / static_cast<double>(n);
      for (int64_t j = 0; j < n; ++j) variance += std::pow(x[j] - mu, 2) / static_cast<double>(n);
      Floats of_row(1, 2);
      kernels.moments(x.data(), n, of_row.data(), of_row.data() + 1);
      CHECK(close(of_row[0], mu, 5e-7, 1e-7));
      CHECK(close(of_row[1], variance, 1e-5, 1e-7));

      Floats y(1, n), dx(1, n), sums(1, 2);
      const auto off = [&](int64_t j) { return static_cast<double>(x[j]) - of_row[0]; };
      kernels.normalise(x.data(), y.data(), n, of_row[0], 0.75f, 0.5f);
      check_matrix(
          y, [&](int64_t, int64_t j) { return off(j) * 0.75 + 0.5; }, 1e-6, 1e-6);
      double sum = 0, product = 0, most = 0;
      for (int64_t j = 0; j < n; ++j) {
        sum += dy[j];
        product += dy[j] * off(j);
        most += std::abs(dy[j] * off(j)) + std::abs(dy[j]);
      }
      kernels.centred_sums(x.data(), dy.data(), n, of_row[0], sums.data(), sums.data() + 1);
      CHECK(close(sums[0], sum, 0.0, 1e-6 * most));
      CHECK(close(sums[1], product, 0.0, 1e-6 * most));
      kernels.centred_grad(x.data(), dy.data(), dx.data(), n, of_row[0], 2.0f, 0.25f, 0.5f);
      check_matrix(
          dx, [&](int64_t, int64_t j) { return 2.0 * dy[j] - 0.25 - 0.5 * off(j); }, 1e-6, 2e-6);
      Floats in_place = dy;
      kernels.centred_grad(x.data(), in_place.data(), in_place.data(), n, of_row[0], 2.0f, 0.25f, 0.5f);
      check_matrix(
          in_place, [&](int64_t, int64_t j) { return dx[j]; }, 0.0, 0.0);
    }
  });
}

TEST_CASE("cpu rows: RMS norm and its gradient") {
  for_each_size([](const RowKernels<float>& kernels, int64_t cols) {
    if (cols == 0) return;
    const int64_t rows = 5;
    const double eps = static_cast<double>(1e-6f), n = static_cast<double>(cols);
    Floats x = Floats(rows, cols, true).fill(normal(12)), dy = Floats(rows, cols, true).fill(normal(15));
    Floats weight = Floats(1, cols).fill(normal(13)), y(rows, cols, true), rrms(1, rows);
    kernels.rms_norm_rows(x.data(), weight.data(), y.data(), rrms.data(), rows, cols, 1e-6f);
    std::vector<double> scale(rows), average(rows), sums(static_cast<size_t>(cols));
    for (int64_t i = 0; i < rows; ++i) {
      double squares = 0;
      for (int64_t j = 0; j < cols; ++j) squares += std::pow(x(i, j), 2) / n;
      scale[i] = 1 / std::sqrt(squares + eps);
      CHECK(close(rrms[i], scale[i], 1e-6, 0.0));
      for (int64_t j = 0; j < cols; ++j) {
        const double product = dy(i, j) * (x(i, j) * scale[i]);
        average[i] += product * weight[j] / n;
        sums[j] += product;
      }
    }
    check_matrix(
        y, [&](int64_t i, int64_t j) { return x(i, j) * scale[i] * weight[j]; }, 1e-6, 1e-6);
    Floats dx(rows, cols, true), dweight = Floats(1, cols).fill(normal(16)), before = dweight;
    kernels.rms_norm_grad_rows(x.data(), dy.data(), weight.data(), rrms.data(), dx.data(), dweight.data(),
                               rows, cols);
    // A row of one number has a gradient of 0 where its terms, up to its scale, cancel.
    check_matrix(
        dx,
        [&](int64_t i, int64_t j) {
          return scale[i] * (static_cast<double>(dy(i, j)) * weight[j] - x(i, j) * scale[i] * average[i]);
        },
        1e-5, cols == 1 ? 1e-4 : 1e-5);
    check_matrix(
        dweight, [&](int64_t, int64_t j) { return before[j] + sums[j]; }, 1e-5, 1e-5);
  });
}

TEST_CASE("cpu rows: cross-entropy with labels and with soft targets") {
  for_each_size([](const RowKernels<float>& kernels, int64_t cols) {
    if (cols == 0) return;
    const int64_t rows = 5;
    const double scale = 0.25;
    for (const float smoothing : {0.0f, 0.1f}) {
      CAPTURE(smoothing);
      Floats z = Floats(rows, cols).fill(normal(18, 3.0));
      for (int64_t j = 0; j < cols; ++j) z(1, j) += 5000.0f;
      const std::vector<int64_t> labels = {0, cols - 1, -100, cols / 2, 0};
      Floats soft(rows, cols, true), soft_given = Floats(rows, cols).fill(normal(19));
      for (int64_t i = 0; i < rows; ++i) {
        const std::vector<double> p = softmax(soft_given, i, cols);
        for (int64_t j = 0; j < cols; ++j) soft(i, j) = static_cast<float>(p[j]);
      }
      auto target = [&](bool dense, int64_t i, int64_t j) {
        const double t = dense ? soft(i, j) : (j == labels[i] ? 1.0 : 0.0);
        return (1.0 - smoothing) * t + smoothing / static_cast<double>(cols);
      };
      for (const bool dense : {false, true}) {
        CAPTURE(dense);
        Floats loss(1, rows), loss_alone(1, rows), grad(rows, cols, true), in_place = z;
        auto run = [&](Floats& logits, Floats& loss_out, float* grad_out, int64_t ldg) {
          if (dense) {
            kernels.soft_cross_entropy_rows(logits.data(), soft.data(), rows, cols, logits.ld, soft.ld,
                                            smoothing, 0.25f, loss_out.data(), grad_out, ldg);
          } else {
            CHECK(kernels.cross_entropy_rows(logits.data(), labels.data(), rows, cols, logits.ld, -100,
                                             smoothing, 0.25f, loss_out.data(), grad_out, ldg) == -1);
          }
        };
        run(z, loss, grad.data(), grad.ld);
        run(z, loss_alone, nullptr, 0);
        run(in_place, loss_alone, in_place.data(), in_place.ld);
        auto want_grad = [&](int64_t i, int64_t j) {
          if (!dense && labels[i] == -100) return 0.0;
          return scale * (softmax(z, i, cols)[j] - target(dense, i, j));
        };
        if (cols <= 197) {
          check_matrix(grad, want_grad, 1e-5, 1e-6);
          check_matrix(in_place, want_grad, 1e-5, 1e-6);
        }
        for (int64_t i = 0; i < rows; ++i) {
          double lse = 0.0, want = 0.0;
          softmax(z, i, cols, &lse);
          for (int64_t j = 0; j < cols; ++j) want += target(dense, i, j) * (lse - z(i, j));
          if (!dense && labels[i] == -100) want = 0.0;
          CHECK(close(loss[i], want, 2e-6, 2e-6));
          CHECK(close(loss_alone[i], want, 2e-6, 2e-6));
        }
        CHECK(loss.intact());
      }
    }
    Floats z = Floats(3, cols).fill(normal(20)), loss(1, 3);
    const std::vector<int64_t> high = {0, cols, 0}, negative = {0, 0, -1};
    CHECK(kernels.cross_entropy_rows(z.data(), high.data(), 3, cols, z.ld, -100, 0, 1, loss.data(), nullptr,
                                     0) == 1);
    CHECK(kernels.cross_entropy_rows(z.data(), negative.data(), 3, cols, z.ld, -100, 0, 1, loss.data(),
                                     nullptr, 0) == 2);
  });
}

TEST_CASE("cpu rows: cross-entropy and argmax of points between two rows") {
  for_each_size([](const RowKernels<float>& kernels, int64_t cols) {
    if (cols == 0) return;  // a point has a class
    Floats x = Floats(3, cols, true).fill(normal(22, 3.0)), grad = Floats(3, cols, true).fill(normal(23));
    const std::vector<Tap<float>> taps = {
        {0, 1, 0.0f}, {0, 1, 0.25f}, {1, 2, 0.875f}, {2, 2, 0.5f}, {1, 2, 0.5f}};
    const std::vector<int64_t> labels = {0, cols - 1, cols / 2, 0, -7};  // the last is ignored
    std::vector<double> want_grad(size_t(3 * cols));
    for (int64_t i = 0; i < 3 * cols; ++i) want_grad[size_t(i)] = grad(i / cols, i % cols);
    double want_loss = 0;
    Matrix<int64_t> best(1, 5);
    std::vector<int64_t> want_best;
    Floats scratch(1, cols);
    for (size_t p = 0; p < taps.size(); ++p) {
      const auto [low, high, weight] = taps[p];
      std::vector<double> z;
      for (int64_t j = 0; j < cols; ++j)
        z.push_back((1.0 - weight) * x(low, j) + double(weight) * x(high, j));
      want_best.push_back(std::max_element(z.begin(), z.end()) - z.begin());
      if (labels[p] == -7) continue;
      double sum = 0;
      for (double v : z) sum += std::exp(v);
      want_loss += std::log(sum) - z[size_t(labels[p])];
      for (int64_t j = 0; j < cols; ++j) {
        const double g = std::exp(z[size_t(j)]) / sum - (j == labels[p]);
        want_grad[size_t(low * cols + j)] += (1.0 - weight) * g;
        want_grad[size_t(high * cols + j)] += weight * g;
      }
    }
    const auto loss = [&](float* gradient) {
      return kernels.cross_entropy_between(x.data(), taps.data(), labels.data(), 5, cols, -7, scratch.data(),
                                           gradient);
    };
    CHECK(close(loss(nullptr), want_loss, 1e-5, 1e-5));
    CHECK(close(loss(grad.data()), want_loss, 1e-5, 1e-5));
    check_matrix(
        grad, [&](int64_t i, int64_t j) { return want_grad[size_t(i * cols + j)]; }, 1e-5, 1e-5);
    kernels.argmax_between(x.data(), taps.data(), 5, cols, scratch.data(), best.data());
    for (int64_t p = 0; p < 5; ++p) CHECK(best[p] == want_best[size_t(p)]);
    CHECK(best.intact());
    CHECK(scratch.intact());
    x(1, cols / 2) = kNan;
    kernels.argmax_between(x.data(), taps.data() + 2, 1, cols, scratch.data(), best.data());
    CHECK(best[0] == cols / 2);
  });
}

TEST_CASE("cpu rows: exp_sum_rows joins columns in any parts, in any order of size") {
  for_each_size([](const RowKernels<float>& kernels, int64_t cols) {
    if (cols == 0) return;
    for (const double slope : {0.0, 0.5, -0.5}) {  // the largest number anywhere, at the end, at the start
      Floats z = Floats(4, cols).fill(normal(44, 3.0));
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t j = 0; j < cols; ++j)
          z(i, j) += static_cast<float>(slope * static_cast<double>(j) + 1000.0);
      for (int64_t part : {cols, (cols + 2) / 3, int64_t{1}}) {
        Floats stats(4, 2, true);
        for (int64_t i = 0; i < 4; ++i) {
          stats(i, 0) = -kInf;
          stats(i, 1) = 0;
        }
        for (int64_t j = 0; j < cols; j += part)
          kernels.exp_sum_rows(z.data() + j, 4, std::min(part, cols - j), z.ld, stats.data());
        for (int64_t i = 0; i < 4; ++i) {
          double lse = 0.0;
          softmax(z, i, cols, &lse);
          CHECK(close(stats(i, 0) + std::log(static_cast<double>(stats(i, 1))), lse, 0.0, 1e-5));
        }
        CHECK(stats.intact());
      }
    }
  });
}

TEST_CASE("cpu rows: exp_sum_rows takes parts that are all -inf, and keeps a NaN") {
  for_each_size([](const RowKernels<float>& kernels, int64_t cols) {
    if (cols == 0) return;
    const auto joined = [&](const std::vector<float>& parts) {
      std::vector<float> stats = {-kInf, 0};
      for (const float value : parts) {
        const std::vector<float> z(size_t(cols), value);
        kernels.exp_sum_rows(z.data(), 1, cols, cols, stats.data());
      }
      return stats;
    };
    const float n = float(cols);
    CHECK(joined({-kInf}) == std::vector<float>{-kInf, 0});
    CHECK(joined({-kInf, -kInf}) == std::vector<float>{-kInf, 0});
    CHECK(joined({-kInf, 3, -kInf}) == std::vector<float>{3, n});
    CHECK(joined({-kInf, -1000, -1000}) == std::vector<float>{-1000, 2 * n});
    for (const auto& parts : {std::vector<float>{kNan, 3}, {-kInf, kNan, 3}, {3, kNan}, {kNan, -kInf}})
      CHECK(std::isnan(joined(parts)[1]));
  });
}

TEST_CASE("cpu rows: a masked class costs nothing where its target is 0") {
  for (const RowKernels<float>* kernels : all_kernels()) {
    const std::vector<float> z = {1.0f, -kInf, 2.0f}, t = {0.5f, 0.0f, 0.5f};
    const int64_t label = 2;
    float hard = 0.0f, soft = 0.0f;
    std::vector<float> grad(3);
    const double lse = std::log(std::exp(1.0) + std::exp(2.0));
    CHECK(kernels->cross_entropy_rows(z.data(), &label, 1, 3, 3, -100, 0.0f, 1.0f, &hard, grad.data(), 3) ==
          -1);
    CHECK(close(hard, lse - 2.0, 1e-6, 0.0));
    CHECK(grad[1] == 0.0f);
    kernels->soft_cross_entropy_rows(z.data(), t.data(), 1, 3, 3, 3, 0.0f, 1.0f, &soft, grad.data(), 3);
    CHECK(close(soft, lse - 1.5, 1e-6, 0.0));
    CHECK(close(grad[0], std::exp(1.0 - lse) - 0.5, 1e-6, 1e-7));
  }
}

TEST_CASE("cpu rows: optimizers over several steps") {
  for_each_size([](const RowKernels<float>& kernels, int64_t n) {
    Floats p = Floats(1, n).fill(normal(21)), m(1, n), v(1, n), e = p;
    m.fill([] { return 0.0; });
    v.fill([] { return 0.0; });
    const std::vector<double> p0(p.data(), p.data() + n);
    std::vector<double> pd = p0, md(p0.size()), vd(p0.size()), ed = p0;
    const double lr = 1e-2, wd = 0.05, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.99996;
    for (int step = 1; step <= 5; ++step) {
      Floats g = Floats(1, n).fill(normal(100 + step));
      const double c1 = 1 - std::pow(beta1, step), c2 = 1 - std::pow(beta2, step);
      kernels.adamw(p.data(), g.data(), m.data(), v.data(), n,
                    {1 - lr * wd, lr / c1, 1 / c2, beta1, beta2, eps, 0.5});
      kernels.ema(e.data(), p.data(), n, decay);
      for (int64_t j = 0; j < n; ++j) {
        const double gradient = 0.5 * g[j];
        pd[j] -= lr * wd * pd[j];
        md[j] = beta1 * md[j] + (1 - beta1) * gradient;
        vd[j] = beta2 * vd[j] + (1 - beta2) * gradient * gradient;
        pd[j] -= lr * (md[j] / c1) / (std::sqrt(vd[j] / c2) + eps);
        ed[j] = decay * ed[j] + (1 - decay) * pd[j];
      }
    }
    check_matrix(
        p, [&](int64_t, int64_t j) { return pd[j]; }, 1e-6, 1e-6);
    check_matrix(
        m, [&](int64_t, int64_t j) { return md[j]; }, 1e-6, 1e-7);
    check_matrix(
        v, [&](int64_t, int64_t j) { return vd[j]; }, 1e-6, 1e-9);
    check_matrix(
        e, [&](int64_t, int64_t j) { return ed[j]; }, 1e-6, 1e-7);

    for (const bool nesterov : {false, true}) {
      for (const double momentum : {0.0, 0.9}) {
        Floats q = Floats(1, n).fill(normal(21)), b(1, n);
        b.fill([] { return 0.0; });
        std::vector<double> qd = p0, bd(p0.size());
        for (int step = 0; step < 4; ++step) {
          Floats g = Floats(1, n).fill(normal(200 + step));
          kernels.sgd(q.data(), g.data(), momentum > 0 ? b.data() : nullptr, n,
                      {lr, momentum, wd, nesterov, 2.0});
          for (int64_t j = 0; j < n; ++j) {
            const double gradient = 2.0 * g[j] + wd * qd[j];
            bd[j] = momentum * bd[j] + gradient;
            qd[j] -= lr * (nesterov ? gradient + momentum * bd[j] : bd[j]);
          }
        }
        check_matrix(
            q, [&](int64_t, int64_t j) { return qd[j]; }, 1e-6, 1e-6);
        CHECK(b.intact());
      }
    }
  });
}

TEST_CASE("cpu rows: plain arrays") {
  for_each_size([](const RowKernels<float>& kernels, int64_t n) {
    Floats a = Floats(1, n).fill(normal(22)), b = Floats(1, n).fill(normal(23)), y(1, n);
    kernels.add(a.data(), b.data(), y.data(), n);
    check_matrix(
        y, [&](int64_t, int64_t j) { return a[j] + b[j]; }, 0.0, 0.0);
    kernels.multiply(a.data(), b.data(), y.data(), n);
    check_matrix(
        y, [&](int64_t, int64_t j) { return a[j] * b[j]; }, 0.0, 0.0);
    y = b;
    kernels.axpy(0.75f, a.data(), y.data(), n);
    check_matrix(
        y, [&](int64_t, int64_t j) { return 0.75 * a[j] + b[j]; }, 1e-6, 1e-7);
    y = b;
    kernels.scale(-3.0f, y.data(), n);
    check_matrix(
        y, [&](int64_t, int64_t j) { return -3.0f * b[j]; }, 0.0, 0.0);
  });
  for (const RowKernels<float>* kernels : all_kernels()) {
    Floats x = Floats(1, 100003).fill(normal(24));
    double want = 0.0;
    for (int64_t j = 0; j < x.cols; ++j) want += static_cast<double>(x[j]) * x[j];
    CHECK(close(kernels->sum_squares(x.data(), x.cols), want, 1e-6, 0.0));
    CHECK(kernels->sum_squares(nullptr, 0) == 0.0);
  }
}

TEST_CASE("cpu rows: Philox's numbers are those of one block at a time") {
  for_each_size([](const RowKernels<float>& kernels, int64_t n) {
    for (const uint64_t first : {uint64_t(0), uint64_t(12), (uint64_t(1) << 34) - 8, uint64_t(5) << 61}) {
      constexpr uint64_t seed = 0x9e3779b97f4a7c15u, stream = 0xfedcba9876543210u;
      Floats u(1, n);
      kernels.philox_uniforms(seed, stream, first, u.data(), n);
      CHECK(u.intact());
      int64_t differ = 0;
      for (int64_t j = 0; j < n; ++j)
        differ += u[j] != to_uniform(philox(seed, stream, first / 4 + uint64_t(j) / 4).v[j % 4]);
      CHECK(differ == 0);
    }
  });
}

TEST_CASE("cpu rows: bfloat16") {
  for_each_size([](const RowKernels<float>& kernels, int64_t n) {
    Matrix<uint16_t> half(1, n);
    Floats x = Floats(1, n).fill(normal(25, 1e3)), back(1, n);
    const std::vector<float> edge = {
        kNan, std::bit_cast<float>(0x7f800001u), kInf, -kInf, 3.4e38f, 1.00390625f, 1.01171875f};
    for (int64_t j = 0; j < std::min<int64_t>(n, 7); ++j) x[j] = edge[j];
    kernels.f32_to_bf16(x.data(), half.data(), n);
    kernels.bf16_to_f32(half.data(), back.data(), n);
    CHECK(half.intact());
    // Halfway cases go to the even neighbour: 1 + 2^-8 down to 1, 1 + 3 * 2^-8 up to 1 + 2^-6.
    const std::vector<double> want = {kNan, kNan, kInf, -kInf, kInf, 1.0, 1.015625};
    for (int64_t j = 0; j < std::min<int64_t>(n, 7); ++j) CHECK(close(back[j], want[j], 0.0, 0.0));
    for (int64_t j = 7; j < n; ++j) {
      const double ulp = std::ldexp(1.0, std::ilogb(x[j]) - 7);
      CHECK(std::abs(back[j] - x[j]) <= 0.5 * ulp);
    }
    CHECK(back.intact());
  });
}

}  // namespace
}  // namespace pursuit
