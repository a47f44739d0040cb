#include "engine/solve/linalg.h"

#include <lapacke.h>

#include <cmath>

#include "cuda/runtime.h"
#include "cuda/solver.h"
#include "engine/cpu/parallel.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

lapack_int syevd(float* a, int64_t n, int64_t ld, float* values) {
  return LAPACKE_ssyevd(LAPACK_COL_MAJOR, 'V', 'L', lapack_int(n), a, lapack_int(ld), values);
}
lapack_int syevd(double* a, int64_t n, int64_t ld, double* values) {
  return LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'L', lapack_int(n), a, lapack_int(ld), values);
}

// A row-major matrix read as column-major is its transpose, whose factors are those of `a`, swapped: no
// copy.
lapack_int gesdd(int64_t m, int64_t n, float* a, float* s, float* u, float* vt) {
  const lapack_int k = lapack_int(std::min(m, n));
  return LAPACKE_sgesdd(LAPACK_COL_MAJOR, 'S', lapack_int(n), lapack_int(m), a, lapack_int(n), s, vt,
                        lapack_int(n), u, k);
}
lapack_int gesdd(int64_t m, int64_t n, double* a, double* s, double* u, double* vt) {
  const lapack_int k = lapack_int(std::min(m, n));
  return LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'S', lapack_int(n), lapack_int(m), a, lapack_int(n), s, vt,
                        lapack_int(n), u, k);
}

template <class T> void eigen(T* a, int64_t n, int64_t ld, T* values) {
  if (n == 0) return;
  if (const lapack_int info = syevd(a, n, ld, values))
    fail("symmetric_eigen", "LAPACK's syevd failed with " + std::to_string(info) + " on a matrix of " +
                                std::to_string(n) + "; does it hold NaN or infinity?");
}

[[noreturn]] void fail_svd(const char* by, int64_t info, int64_t matrix) {
  fail("svd", std::string(by) + " failed with " + std::to_string(info) + " on matrix " +
                  std::to_string(matrix) + "; does it hold NaN or infinity?");
}

// The factors, with the given shapes.
Svd svd_on_gpu(const Tensor& in, const Shape& of_u, const Shape& of_s, const Shape& of_vt) {
  if (cuda::capturing(in.device().index))
    fail("svd", "the GPU's solver of " + in.str() +
                    " waits for the GPU, which a recorded step cannot; run it without a graph (--no-graph)");
  cuda::Svd p{.m = in.size(-2), .n = in.size(-1)};
  p.batch = in.numel() / (p.m * p.n);
  const auto matrices = [&](int64_t rows, int64_t cols) {
    return empty({p.batch, rows, cols}, DType::f32, in.device());
  };
  const Tensor a = matrices(p.m, p.n), s = matrices(1, p.small()), ut = matrices(p.left(), p.m),
               vt = matrices(p.right(), p.n);
  copy_values(a, in.reshape(a.shape()));
  p.a = a.data<float>();
  p.s = s.data<float>();
  p.ut = ut.data<float>();
  p.vt = vt.data<float>();
  const std::vector<int32_t> info = cuda::svd(p);
  for (size_t i = 0; i < info.size(); ++i)
    if (info[i] != 0) fail_svd("the GPU's solver", info[i], int64_t(i));
  if (!std::isfinite(sum(s).item())) fail("svd", "got " + in.str() + " with NaN or infinity in it");
  return {ut.slice(1, 0, p.small()).transpose(1, 2).reshape(of_u), s.reshape(of_s),
          vt.slice(1, 0, p.small()).reshape(of_vt)};
}

}  // namespace

void symmetric_eigen(float* a, int64_t n, int64_t ld, float* values) { eigen(a, n, ld, values); }
void symmetric_eigen(double* a, int64_t n, int64_t ld, double* values) { eigen(a, n, ld, values); }

std::vector<std::complex<double>> eigenvalues(const Tensor& a) {
  if (a.ndim() != 2 || a.size(0) != a.size(1) || a.device().is_cuda() || a.dtype() != DType::f64)
    fail("eigenvalues", "got " + a.str() + ", need f64 [n, n] on the CPU");
  const int64_t n = a.size(0);
  std::vector<double> work = a.to_vector(), real(static_cast<size_t>(n)), imaginary(static_cast<size_t>(n));
  // A row-major matrix read as column-major is its transpose, which has the same eigenvalues.
  const lapack_int info =
      n == 0 ? 0
             : LAPACKE_dgeev(LAPACK_COL_MAJOR, 'N', 'N', lapack_int(n), work.data(), lapack_int(n),
                             real.data(), imaginary.data(), nullptr, 1, nullptr, 1);
  if (info)
    fail("eigenvalues", "LAPACK's geev failed with " + std::to_string(info) + " on a matrix of " +
                            std::to_string(n) + "; does it hold NaN or infinity?");
  std::vector<std::complex<double>> values;
  for (size_t i = 0; i < size_t(n); ++i) values.emplace_back(real[i], imaginary[i]);
  return values;
}

Svd svd(const Tensor& a) {
  if (a.ndim() < 2 || (a.dtype() != DType::f32 && a.dtype() != DType::f64))
    fail("svd", "got " + a.str() + ", need f32 or f64 [..., M, N]");
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n), batch = k ? a.numel() / (m * n) : 0;
  Shape su = a.shape(), ss = a.shape(), svt = a.shape();
  su.back() = k;
  svt[svt.size() - 2] = k;
  ss.erase(ss.size() - 1);
  ss.back() = k;
  if (a.device().is_cuda() && a.numel() > 0) return svd_on_gpu(a.detach(), su, ss, svt);
  Svd out{empty(su, a.dtype(), a.device()), empty(ss, a.dtype(), a.device()),
          empty(svt, a.dtype(), a.device())};
  if (a.numel() == 0) return out;
  Tensor work = empty(a.shape(), a.dtype());
  copy_values(work, a.detach());
  dispatch(work, "svd", [&]<class Dev, class T>(Dev, Type<T>) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      T *pa = work.data<T>(), *pu = out.u.data<T>(), *ps = out.s.data<T>(), *pvt = out.vt.data<T>();
      parallel_for(batch, 1, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i)
          if (const lapack_int info =
                  gesdd(m, n, pa + i * m * n, ps + i * k, pu + i * m * k, pvt + i * k * n))
            fail_svd("LAPACK's gesdd", info, i);
      });
    }
  });
  return out;
}

}  // namespace pursuit
