#include "engine/cpu/gemm.h"

#include <cblas.h>

#include <string>
#include <vector>

#include "engine/cpu/amx.h"
#include "engine/cpu/bf16_tiles.h"
#include "engine/cpu/scratch.h"
#include "engine/cpu/wide_rows.h"
#include "engine/cpu/work.h"

namespace pursuit {

namespace {

// We create the threads: every product runs on the calling thread.
[[maybe_unused]] const bool blas_is_sequential = (openblas_set_num_threads(1), true);

CBLAS_TRANSPOSE op(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

// beta C for an empty inner dimension, which BLAS implementations handle differently.
template <class T> void scale_only(int64_t m, int64_t n, T beta, T* c, int64_t ldc) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) c[i * ldc + j] = beta == 0 ? T(0) : beta * c[i * ldc + j];
}

std::vector<float> widen(const bf16* x, int64_t rows, int64_t cols, int64_t ld) {
  std::vector<float> y(static_cast<size_t>(rows * cols));
  for (int64_t i = 0; i < rows; ++i)
    pursuit::rows<float>().bf16_to_f32(words(x + i * ld), y.data() + i * cols, cols);
  return y;
}

}  // namespace

namespace rows_avx512_bf16 {
extern const Bf16Tiles tiles;
}

namespace rows_amx_bf16 {
extern const Bf16Tiles tiles;
}

const Bf16Tiles* bf16_tiles_of(const char* isa) {
  const std::string name = isa;
  __builtin_cpu_init();
  if (name == "amx" && amx_supported()) return &rows_amx_bf16::tiles;
  if (name == "avx512" && isa_supported("avx512") && __builtin_cpu_supports("avx512bf16"))
    return &rows_avx512_bf16::tiles;
  return nullptr;
}

const Bf16Tiles* bf16_tiles() {
  static const Bf16Tiles* const chosen = bf16_tiles_of(amx_chosen() ? "amx" : rows<float>().isa);
  return chosen;
}

void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t lda,
          const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_only(m, n, beta, c, ldc);
  count_multiply_adds(m * n * k);
  cblas_dgemm(CblasRowMajor, op(ta), op(tb), int(m), int(n), int(k), alpha, a, int(lda), b, int(ldb), beta, c,
              int(ldc));
}

void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_only(m, n, beta, c, ldc);
  count_multiply_adds(m * n * k);
  rows<float>().gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void gram(int64_t n, int64_t k, double alpha, const double* a, int64_t lda, double* c, int64_t ldc) {
  gemm(false, true, n, n, k, alpha, a, lda, a, lda, 0.0, c, ldc);
}

void gram(int64_t n, int64_t k, float alpha, const float* a, int64_t lda, float* c, int64_t ldc) {
  if (n == 0 || k == 0) return scale_only(n, n, 0.0f, c, ldc);
  count_multiply_adds(n * (n + 1) / 2 * k);
  rows<float>().gram(n, k, alpha, a, lda, c, ldc);
}

void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const bf16* a, int64_t lda,
          const bf16* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_only(m, n, beta, c, ldc);
  if (const Bf16Tiles* tiles = bf16_tiles()) {
    count_multiply_adds(m * n * k);
    return tiles->gemm(ta, tb, m, n, k, alpha, words(a), lda, words(b), ldb, beta, c, ldc,
                       scratch<uint32_t>(0, tiles->workspace_size(ta, m, k)));
  }
  const int64_t ra = ta ? k : m, ca = ta ? m : k, rb = tb ? n : k, cb = tb ? k : n;
  gemm(ta, tb, m, n, k, alpha, widen(a, ra, ca, lda).data(), ca, widen(b, rb, cb, ldb).data(), cb, beta, c,
       ldc);
}

void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const bf16* a, int64_t lda,
          const bf16* b, int64_t ldb, float beta, bf16* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  const Bf16Tiles* tiles = bf16_tiles();
  if (tiles && k > 0 && k <= tiles->max_depth) {
    count_multiply_adds(m * n * k);
    return tiles->gemm_rounded(ta, tb, m, n, k, alpha, words(a), lda, words(b), ldb, beta, words(c), ldc,
                               scratch<uint32_t>(0, tiles->workspace_size(ta, m, k)));
  }
  std::vector<float> wide = beta == 0 ? std::vector<float>(size_t(m * n)) : widen(c, m, n, ldc);
  gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, wide.data(), n);
  for (int64_t i = 0; i < m; ++i) rows<float>().f32_to_bf16(wide.data() + i * n, words(c + i * ldc), n);
}

}  // namespace pursuit
