#include "engine/cpu/gemm.h"

#include <vector>

#include "cuda/gemm.cuh"
#include "cuda/simulated/stream.h"
#include "cuda/simulated/traffic.h"
#include "cuda/simulated/truncated_sum.h"

// cuda/gemm.h on the simulated GPU: the CPU's products, rounded once at the end as in cuBLASLt. They are not
// simulated launches. Where the simulated tensor cores truncate, products of bf16 do; those of f32 are not
// made on tensor cores.
namespace pursuit::cuda {

namespace {

// product [m, n] = alpha op(A) op(B), summed by tensor cores that truncate.
void multiply_truncated(const Gemm& g, const bf16* a, const bf16* b, float* product) {
  const simt::TensorCores& cores = simt::tensor_cores();
  const int64_t step = 16 / cores.steps;
  std::vector<float> rows(size_t(g.m * g.k)), columns(size_t(g.n * g.k));
  for (int64_t p = 0; p < g.k; ++p) {
    for (int64_t i = 0; i < g.m; ++i)
      rows[size_t(i * g.k + p)] = upcast(a[g.ta ? p * g.lda + i : i * g.lda + p]);
    for (int64_t j = 0; j < g.n; ++j)
      columns[size_t(j * g.k + p)] = upcast(b[g.tb ? j * g.ldb + p : p * g.ldb + j]);
  }
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < g.k; p += step)
        sum = simt::truncated_sum(cores, sum, &rows[size_t(i * g.k + p)], &columns[size_t(j * g.k + p)],
                                  int(std::min(step, g.k - p)));
      product[i * g.n + j] = g.alpha * sum;
    }
}

template <class T> void multiply_one(const Gemm& g, const T* a, const T* b, float* product) {
  if constexpr (std::is_same_v<T, bf16>)
    if (simt::tensor_cores().truncate) return multiply_truncated(g, a, b, product);
  pursuit::gemm(g.ta, g.tb, g.m, g.n, g.k, g.alpha, a, g.lda, b, g.ldb, 0.0f, product, g.n);
}

template <class T, class Y> void multiply(const Gemm& g) {
  const T *a = static_cast<const T*>(g.a), *b = static_cast<const T*>(g.b);
  std::vector<float> product(size_t(g.m * g.n));
  for (int64_t l = 0; l < g.batch; ++l) {
    multiply_one(g, a + l * g.stride_a, b + l * g.stride_b, product.data());
    const Y* c = static_cast<const Y*>(g.c);
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t j = 0; j < g.n; ++j) {
        float y = product[size_t(i * g.n + j)];
        if (c) y += g.beta * upcast(c[l * g.stride_c + i * g.ldc + j]);
        if (g.bias) y += upcast(static_cast<const Y*>(g.bias)[j]);
        static_cast<Y*>(g.d)[l * g.stride_d + i * g.ldd + j] = downcast<Y>(y);
      }
  }
  if (!g.row_sums) return;
  std::vector<double> sums(size_t(g.m), 0.0);
  for (int64_t p = 0; p < g.k; ++p)
    for (int64_t i = 0; i < g.m; ++i) sums[size_t(i)] += upcast(a[p * g.lda + i]);
  for (int64_t i = 0; i < g.m; ++i) static_cast<Y*>(g.row_sums)[i] = downcast<Y>(float(sums[size_t(i)]));
}

void multiply_integers(const Gemm& g) {
  const int8_t *a = static_cast<const int8_t*>(g.a), *b = static_cast<const int8_t*>(g.b);
  for (int64_t l = 0; l < g.batch; ++l)
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t j = 0; j < g.n; ++j) {
        const int8_t *x = a + l * g.stride_a + i * g.lda, *y = b + l * g.stride_b + j * g.ldb;
        int32_t sum = 0;
        for (int64_t p = 0; p < g.k; ++p) sum += int32_t(x[p]) * y[p];
        static_cast<int32_t*>(g.d)[l * g.stride_d + i * g.ldd + j] = sum;
      }
}

// Counts the accesses to `batch` matrices [rows, cols].
template <class Count> void count_matrices(const Count& count, const void* p, int64_t batch, int64_t stride,
                                           int64_t rows, int64_t cols, int64_t ld, DType type) {
  if (!p) return;
  const auto* begin = static_cast<const unsigned char*>(p);
  for (int64_t l = 0; l < batch; ++l)
    for (int64_t i = 0; i < rows; ++i)
      count(begin + size_t(l * stride + i * ld) * size_of(type), size_t(cols) * size_of(type));
}

void count_traffic(const Gemm& g) {
  count_matrices(simt::count_read, g.a, g.batch, g.stride_a, g.ta ? g.k : g.m, g.ta ? g.m : g.k, g.lda,
                 g.factors);
  count_matrices(simt::count_read, g.b, g.batch, g.stride_b, g.tb ? g.n : g.k, g.tb ? g.k : g.n, g.ldb,
                 g.factors);
  count_matrices(simt::count_read, g.beta != 0 ? g.c : nullptr, g.batch, g.stride_c, g.m, g.n, g.ldc,
                 g.result);
  count_matrices(simt::count_written, g.d, g.batch, g.stride_d, g.m, g.n, g.ldd, g.result);
  count_matrices(simt::count_read, g.bias, 1, 0, 1, g.n, 0, g.result);
  count_matrices(simt::count_written, g.row_sums, 1, 0, 1, g.m, 0, g.result);
  simt::count_multiply_adds(g.batch * g.m * g.n * g.k);
}

// Fails for arguments that cuBLASLt rejects.
void check(const Gemm& g) {
  if (!has_aligned_vectors(g)) fail("gemm", "misaligned address: a bias or row sums");
  const auto leads = [](const char* what, int64_t ld, int64_t cols) {
    if (ld < cols)
      fail("gemm", std::string("the rows of ") + what + " begin " + std::to_string(ld) + " apart and have " +
                       std::to_string(cols) + " numbers");
  };
  leads("A", g.lda, g.ta ? g.m : g.k);
  leads("B", g.ldb, g.tb ? g.k : g.n);
  if (g.c) leads("C", g.ldc, g.n);
  leads("D", g.ldd, g.n);
}

}  // namespace

void gemm(const Gemm& given) {
  gemm_by(given, [](const Gemm& g) {
    check(g);
#ifndef PURSUIT_TRAFFIC
    // cuBLASLt may have no algorithm for an epilogue. Rejecting some products tests that case too.
    if ((g.bias && g.n % 2 != 0) || (g.row_sums && g.k > 64)) return false;
#endif
    const auto f = g.factors == DType::i8    ? multiply_integers
                   : g.factors == DType::f32 ? multiply<float, float>
                   : g.result == DType::f32  ? multiply<bf16, float>
                                             : multiply<bf16, bf16>;
    simt::submit([=] {
      f(g);
      const simt::CountedLaunch counted("gemm");
      count_traffic(g);
    });
    return true;
  });
}

}  // namespace pursuit::cuda
