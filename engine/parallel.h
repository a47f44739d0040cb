#pragma once
#include <cstdint>

namespace pursuit {

// CPU threads used by operators (OpenMP). Results are the same from run to run for a given number.
int num_threads();
void set_num_threads(int n);

// Calls body(begin, end) on disjoint ranges that cover [0, n), on up to num_threads() threads, each range but
// the last at least `grain` long. Runs in the caller when called from inside a parallel region.
template <class F>
void parallel_for(int64_t n, int64_t grain, const F& body);

void parallel_ranges(int64_t n, int64_t grain, void (*body)(const void*, int64_t, int64_t),
                     const void* state);

template <class F>
void parallel_for(int64_t n, int64_t grain, const F& body) {
  parallel_ranges(
      n, grain, [](const void* f, int64_t begin, int64_t end) { (*static_cast<const F*>(f))(begin, end); },
      &body);
}

}  // namespace pursuit
