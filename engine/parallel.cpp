#include "engine/parallel.h"

#include <omp.h>

#include <algorithm>
#include <exception>

namespace pursuit {

int num_threads() { return omp_get_max_threads(); }
void set_num_threads(int n) { omp_set_num_threads(std::max(1, n)); }

void parallel_ranges(int64_t n, int64_t grain, void (*body)(const void*, int64_t, int64_t),
                     const void* state) {
  if (n <= 0) return;
  const int64_t parts =
      std::min<int64_t>(num_threads(), std::max<int64_t>(1, n / std::max<int64_t>(1, grain)));
  if (parts == 1 || omp_in_parallel()) return body(state, 0, n);
  std::exception_ptr error;
#pragma omp parallel for num_threads(int(parts)) schedule(static, 1)
  for (int64_t p = 0; p < parts; ++p) {
    try {
      body(state, n * p / parts, n * (p + 1) / parts);
    } catch (...) {
#pragma omp critical
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace pursuit
