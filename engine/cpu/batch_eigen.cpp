#include "engine/cpu/batch_eigen.h"

#include <type_traits>

#include "engine/cpu/rows.h"
#include "engine/cpu/scratch.h"

#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math", "fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"

namespace pursuit {

namespace {

// Number of sweeps whose rotations are stored before they are applied: a matrix of 64 x 64 floats then passes
// through the L1 cache once per that many sweeps.
constexpr int64_t kept_sweeps = 16;

namespace sse2 {
#include "engine/cpu/batch_eigen.inc"
}  // namespace sse2

#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
#include "engine/cpu/batch_eigen.inc"
}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")
namespace avx512 {
#include "engine/cpu/batch_eigen.inc"
}  // namespace avx512
#pragma GCC pop_options

template <class T> bool choose(T* a, int64_t count, int64_t n, T* values) {
  if (count == 0 || n == 0) return true;
  const int64_t ld = eigen_stride<T>(n);
  T* work = scratch<T>(7, (2 + 2 * kept_sweeps) * n * eigen_lanes<T> + (n + 5) * ld);
  const char isa = rows<float>().isa[3];  // "avx512", "avx2" or "sse2"
  if (isa == '5') return avx512::batch(a, count, n, ld, values, work);
  if (isa == '2') return avx2::batch(a, count, n, ld, values, work);
  return sse2::batch(a, count, n, ld, values, work);
}

}  // namespace

bool batch_eigen(float* a, int64_t count, int64_t n, float* values) { return choose(a, count, n, values); }
bool batch_eigen(double* a, int64_t count, int64_t n, double* values) { return choose(a, count, n, values); }

}  // namespace pursuit
