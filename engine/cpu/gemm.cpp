#include "engine/cpu/gemm.h"

#include <cblas.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "engine/base/error.h"
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

// How bf16 products run: by oneDNN on CPUs with AMX, which our tiles do not use; by our tiles on CPUs with
// AVX-512's bf16 instructions; otherwise widened to f32. PURSUIT_BF16=onednn selects oneDNN on every AVX-512
// CPU, for comparison and testing (without bf16 instructions it emulates them, slower than widening).
enum class Bf16Way { onednn, tiles, widened };
Bf16Way bf16_way() {
  static const Bf16Way way = [] {
    const char* set = std::getenv("PURSUIT_BF16");
    const std::string wanted = set ? set : "";
    if (!wanted.empty() && wanted != "onednn")
      fail("cpu", "got PURSUIT_BF16=" + wanted + ", need onednn; unset it to take our own tiles");
    const auto isa = dnnl::get_effective_cpu_isa();
    if (isa >= dnnl::cpu_isa::avx512_core_amx || (!wanted.empty() && isa >= dnnl::cpu_isa::avx512_core))
      return Bf16Way::onednn;
    __builtin_cpu_init();
    const bool has_tiles = __builtin_cpu_supports("avx512bf16") && std::string(rows<float>().isa) == "avx512";
    return has_tiles ? Bf16Way::tiles : Bf16Way::widened;
  }();
  return way;
}

using Dims = dnnl::memory::dims;

// A compiled product. oneDNN takes long to create one, so each thread caches those it has used.
struct Product {
  dnnl::matmul primitive;
  dnnl::memory::desc a, b, c;
};

const dnnl::engine& dnnl_cpu() {
  static const dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

const Product& product(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, int64_t lda,
                       int64_t ldb, float beta, int64_t ldc, dnnl::memory::data_type out) {
  using Key = std::array<int64_t, 11>;
  static thread_local std::map<Key, Product> known;
  const Key key{
      ta, tb, m, n, k, lda, ldb, ldc, std::bit_cast<int32_t>(alpha), std::bit_cast<int32_t>(beta), int(out)};
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  using dt = dnnl::memory::data_type;
  const auto strides = [](bool t, int64_t ld) { return t ? Dims{1, ld} : Dims{ld, 1}; };
  const dnnl::memory::desc a({m, k}, dt::bf16, strides(ta, lda)), b({k, n}, dt::bf16, strides(tb, ldb)),
      c({m, n}, out, Dims{ldc, 1});
  dnnl::primitive_attr attr;
  if (alpha != 1) attr.set_output_scales(0, {alpha});
  if (beta != 0) {
    dnnl::post_ops sum;
    sum.append_sum(beta);
    attr.set_post_ops(sum);
  }
  const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a, b, c), attr, dnnl_cpu());
  return known.emplace(key, Product{dnnl::matmul(pd), a, b, c}).first->second;
}

template <class Out> void bf16_by_onednn(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                                         const bf16* a, int64_t lda, const bf16* b, int64_t ldb, float beta,
                                         Out* c, int64_t ldc) {
  count_multiply_adds(m * n * k);
  omp_set_num_threads(1);  // oneDNN takes its thread count from OpenMP
  static thread_local dnnl::stream stream(dnnl_cpu());
  const auto out = std::is_same_v<Out, float> ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
  const Product& p = product(ta, tb, m, n, k, alpha, lda, ldb, beta, ldc, out);
  p.primitive.execute(stream, {{DNNL_ARG_SRC, dnnl::memory(p.a, dnnl_cpu(), const_cast<bf16*>(a))},
                               {DNNL_ARG_WEIGHTS, dnnl::memory(p.b, dnnl_cpu(), const_cast<bf16*>(b))},
                               {DNNL_ARG_DST, dnnl::memory(p.c, dnnl_cpu(), c)}});
  stream.wait();
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

const Bf16Tiles* bf16_tiles() { return bf16_way() == Bf16Way::tiles ? &rows_avx512_bf16::tiles : nullptr; }

std::string bf16_products() {
  switch (bf16_way()) {
    case Bf16Way::onednn:
      return "onednn";
    case Bf16Way::tiles:
      return "tiles";
    default:
      return "widened";
  }
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
  if (bf16_way() == Bf16Way::onednn)
    return bf16_by_onednn(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
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
  if (k > 0 && bf16_way() == Bf16Way::onednn)
    return bf16_by_onednn(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
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
