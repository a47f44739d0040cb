#include "cuda/solver.h"

#include <lapacke.h>

#include "cuda/runtime.h"

// cuda/solver.h on the simulated GPU: LAPACK, with cuSOLVER's calling convention.
namespace pursuit::cuda {

std::vector<int32_t> svd(const Svd& p) {
  std::vector<int32_t> found(static_cast<size_t>(p.batch));
  synchronize(0);
  const auto rows = lapack_int(p.n), cols = lapack_int(p.m);
  std::vector<float> u(size_t(p.left() * p.m));
  for (int64_t i = 0; i < p.batch; ++i) {
    found[size_t(i)] =
        LAPACKE_sgesdd(LAPACK_COL_MAJOR, p.batched() ? 'A' : 'S', rows, cols, p.a + i * p.m * p.n, rows,
                       p.s + i * p.small(), p.vt + i * p.right() * p.n, rows, u.data(), lapack_int(p.left()));
    float* ut = p.ut + i * p.left() * p.m;
    for (int64_t r = 0; r < p.left(); ++r)
      for (int64_t c = 0; c < p.m; ++c) ut[r * p.m + c] = u[size_t(c * p.left() + r)];
  }
  return found;
}

}  // namespace pursuit::cuda
