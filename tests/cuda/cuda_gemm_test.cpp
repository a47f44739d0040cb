// cuda::gemm against sums in double, on the GPU or the simulated one.
#if defined(PURSUIT_CUDA) || defined(PURSUIT_SIMULATED)
#include <doctest/doctest.h>

#include <cmath>

#include "cuda/gemm.h"
#include "cuda/runtime.h"
#include "engine/ops.h"
#include "tests/differences.h"
#include "tests/needs.h"

using namespace pursuit;
using cuda::Gemm;

namespace {

// A tensor on the GPU and its values.
struct Both {
  Tensor gpu;
  std::vector<double> host;
  double operator[](int64_t i) const { return host[size_t(i)]; }
};

Both draw(int64_t n, uint64_t stream, DType type) {
  const Tensor t = uniform({n}, -1, 1, 1, stream).to(type);
  return {t.to(cuda_device()), t.to_vector()};
}

Tensor blank(int64_t n, DType type) { return full({n}, 7, type, cuda_device()); }

struct Case {
  DType factors = DType::f32, result = DType::f32;
  bool ta = false, tb = false;
  int64_t m = 5, n = 6, k = 7, batch = 1;
  float alpha = 1, beta = 1;
  bool c = false, in_place = false, bias = false, row_sums = false;
  bool share_b = false;  // one B for the whole batch
  int64_t skip = 0;      // numbers before those of bias and row_sums
};

// Rows of all matrices are three elements longer than needed, except with row_sums, which need a dense A.
void check(const Case& t) {
  CAPTURE(t.m);
  CAPTURE(t.n);
  CAPTURE(t.k);
  CAPTURE(t.ta);
  CAPTURE(t.tb);
  CAPTURE(name_of(t.factors));
  CAPTURE(name_of(t.result));
  const int64_t lda = (t.ta ? t.m : t.k) + (t.row_sums ? 0 : 3), ldb = (t.tb ? t.k : t.n) + 3, ld = t.n + 3;
  const int64_t size_a = lda * (t.ta ? t.k : t.m), size_b = ldb * (t.tb ? t.n : t.k), size_d = ld * t.m;
  const Both a = draw(size_a * t.batch, 1, t.factors), b = draw(size_b * t.batch, 2, t.factors),
             bias = draw(t.n + t.skip, 4, t.factors);
  Both c = draw(size_d * t.batch, 3, t.result);
  if (t.beta == 0) {  // C must not be read
    c.gpu = full({size_d * t.batch}, NAN, t.result, cuda_device());
    c.host.assign(c.host.size(), 0);
  }
  const Tensor d = t.in_place ? c.gpu : blank(size_d * t.batch, t.result),
               sums = blank(t.m + t.skip, t.result);
  cuda::gemm({.factors = t.factors,
              .result = t.result,
              .m = t.m,
              .n = t.n,
              .k = t.k,
              .a = a.gpu.raw(),
              .lda = lda,
              .ta = t.ta,
              .b = b.gpu.raw(),
              .ldb = ldb,
              .tb = t.tb,
              .d = d.raw(),
              .ldd = ld,
              .c = t.c || t.in_place ? c.gpu.raw() : nullptr,
              .ldc = ld,
              .alpha = t.alpha,
              .beta = t.beta,
              .bias = t.bias ? bias.gpu.slice(0, t.skip, t.skip + t.n).raw() : nullptr,
              .row_sums = t.row_sums ? sums.slice(0, t.skip, t.skip + t.m).raw() : nullptr,
              .batch = t.batch,
              .stride_a = size_a,
              .stride_b = t.share_b ? 0 : size_b,
              .stride_c = size_d,
              .stride_d = size_d});

  const double tolerance = t.result == DType::bf16 ? 0x1p-7 : 1e-5;
  const std::vector<double> got = d.to(cpu).to_vector();
  double worst = 0;
  for (int64_t l = 0; l < t.batch; ++l)
    for (int64_t i = 0; i < t.m; ++i)
      for (int64_t j = 0; j < ld; ++j) {
        const int64_t at = l * size_d + i * ld + j;
        if (j >= t.n) {
          if (t.beta != 0)
            REQUIRE(got[size_t(at)] == (t.in_place ? c[at] : 7));  // the padding must not be written
          continue;
        }
        double y = 0;
        for (int64_t p = 0; p < t.k; ++p)
          y += a[l * size_a + (t.ta ? p * lda + i : i * lda + p)] *
               b[(t.share_b ? 0 : l) * size_b + (t.tb ? j * ldb + p : p * ldb + j)];
        y *= t.alpha;
        if (t.c || t.in_place) y += t.beta * c[at];
        if (t.bias) y += bias[j + t.skip];
        worst = larger(worst, std::fabs(got[size_t(at)] - y) / (1 + std::fabs(y)));
      }
  CHECK(worst <= tolerance);
  if (!t.row_sums) return;
  const std::vector<double> got_sums = sums.to(cpu).to_vector();
  for (int64_t i = 0; i < t.m; ++i) {
    double y = 0;
    for (int64_t p = 0; p < t.k; ++p) y += a[p * lda + i];
    CHECK(std::fabs(got_sums[size_t(i + t.skip)] - y) <= tolerance * (1 + std::fabs(y)));
  }
}

constexpr DType types[][2] = {
    {DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}};

}  // namespace

GPU_TEST_CASE("cuda gemm: transposed factors, longer rows, odd and even sizes") {
  for (const auto& [factors, result] : types)
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        for (int64_t n : {1, 6, 64}) check({factors, result, ta, tb, 5, n, 33});
}

GPU_TEST_CASE("cuda gemm: alpha, beta, C apart and in place") {
  for (const auto& [factors, result] : types)
    for (bool in_place : {false, true}) {
      check(
          {.factors = factors, .result = result, .alpha = 0.5f, .beta = -2, .c = true, .in_place = in_place});
      for (bool bias : {false, true})
        check({.factors = factors,
               .result = result,
               .n = 7,
               .beta = 0,
               .c = true,
               .in_place = in_place,
               .bias = bias});
    }
}

GPU_TEST_CASE("cuda gemm: a bias, with and without C, by the library or by a kernel") {
  for (const auto& [factors, result] : types)
    for (int64_t n : {1, 7, 8, 40})
      for (bool c : {false, true})
        check({.factors = factors, .result = result, .n = n, .beta = 0.5f, .c = c, .bias = true});
}

GPU_TEST_CASE("cuda gemm: sums of the left factor") {
  for (const auto& [factors, result] : types)
    if (factors == result)
      for (int64_t k : {1, 33, 200})
        for (int64_t m : {1, 7, 264})
          check({.factors = factors, .result = result, .ta = true, .m = m, .k = k, .row_sums = true});
}

GPU_TEST_CASE("cuda gemm: a bias and sums that begin anywhere") {
  for (const auto& [factors, result] : types)
    for (int64_t skip : {1, 2, 8}) {
      check({.factors = factors, .result = result, .n = 40, .bias = true, .skip = skip});
      if (factors == result)
        check({.factors = factors, .result = result, .ta = true, .m = 40, .row_sums = true, .skip = skip});
    }
}

GPU_TEST_CASE("cuda gemm: batches, with one right factor for all") {
  for (const auto& [factors, result] : types)
    for (bool share_b : {false, true})
      check({.factors = factors,
             .result = result,
             .m = 3,
             .n = 2,
             .k = 9,
             .batch = 5,
             .c = true,
             .share_b = share_b});
  check({.m = 1, .n = 1, .k = 1, .batch = 40000});
}

GPU_TEST_CASE("cuda gemm: products of nothing") {
  for (const auto& [factors, result] : types) {
    check({.factors = factors, .result = result, .k = 0, .batch = 3, .beta = 0.5f, .c = true});
    check({.factors = factors, .result = result, .k = 0, .bias = true});
    check({.factors = factors, .result = result, .m = 0});
    check({.factors = factors, .result = result, .n = 0, .bias = true});
    if (factors != result) continue;
    check({.factors = factors, .result = result, .ta = true, .n = 0, .row_sums = true});
    check({.factors = factors, .result = result, .ta = true, .k = 0, .row_sums = true});
  }
}

GPU_TEST_CASE("cuda gemm: products of i8 are exact integers") {
  for (const int64_t m : {1, 5, 97})
    for (const int64_t n : {4, 20, 144})
      for (const int64_t k : {4, 32, 768}) {
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        const auto draw = [](const Shape& shape, uint64_t stream) {
          return uniform(shape, -128, 128, 1, stream).to(DType::i8);
        };
        const int64_t lda = k + 4, ldb = k + 16, ldd = n + 8;
        const Tensor a = draw({m, lda}, 1), b = draw({n, ldb}, 2), d = full({m, ldd}, 7, DType::i32),
                     gpu = d.to(cuda_device()), of_a = a.to(cuda_device()), of_b = b.to(cuda_device());
        cuda::gemm({.factors = DType::i8,
                    .result = DType::i32,
                    .m = m,
                    .n = n,
                    .k = k,
                    .a = of_a.raw(),
                    .lda = lda,
                    .b = of_b.raw(),
                    .ldb = ldb,
                    .tb = true,
                    .d = gpu.raw(),
                    .ldd = ldd,
                    .beta = 0});
        const std::vector<double> got = gpu.to(cpu).to_vector();
        int64_t wrong = 0;
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < ldd; ++j) {
            int64_t sum = j < n ? 0 : 7;  // beside the result nothing is written
            for (int64_t p = 0; j < n && p < k; ++p)
              sum += int64_t(a.data<int8_t>()[i * lda + p]) * b.data<int8_t>()[j * ldb + p];
            wrong += got[size_t(i * ldd + j)] != double(sum);
          }
        CHECK(wrong == 0);
      }
}

GPU_TEST_CASE("cuda gemm: what it cannot do is said") {
  for (const Gemm& g : {Gemm{.n = 6, .k = 8, .lda = 8, .tb = true, .ldd = 8, .beta = 0},
                        Gemm{.n = 8, .k = 8, .lda = 8, .ldb = 8, .ldd = 8, .beta = 0},
                        Gemm{.n = 8, .k = 8, .lda = 8, .ldb = 8, .tb = true, .ldd = 8}}) {
    Gemm integers = g;
    integers.factors = DType::i8, integers.result = DType::i32, integers.m = 1;
    CHECK_THROWS_WITH_AS(cuda::gemm(integers), doctest::Contains("products of i8"), Error);
  }
  CHECK_THROWS_WITH_AS(cuda::gemm({.bias = types, .batch = 2}), doctest::Contains("bias"), Error);
  CHECK_THROWS_WITH_AS(cuda::gemm({.row_sums = const_cast<DType*>(&types[0][0])}),
                       doctest::Contains("row_sums"), Error);
}
#endif
