#pragma once
#include <algorithm>
#include <cstdint>

namespace pursuit {

// CPU threads used by operators: the environment variable OMP_NUM_THREADS, else the cores this process may
// run on, until set_num_threads. Results are the same from run to run for a given number.
int num_threads();
void set_num_threads(int n);

// The grain that gives every thread one range, of at least `least`: for a body with work of its own in every
// range, as reading a factor or all rows again.
inline int64_t one_range_each(int64_t n, int64_t least) {
  return std::max<int64_t>(least, n / num_threads());
}

// Calls body(begin, end) on disjoint ranges that cover [0, n), on up to num_threads() threads, each range but
// the last at least `grain` long, several a thread: cores are not equally fast, as the hyperthread beside one
// may be busy with another program. The caller takes part, and whoever has done its own ranges takes over
// those that no other thread has begun. Runs in the caller alone, in one range, when called from inside a
// body, or while another thread's call has the workers. Denormal numbers count as 0 inside a body: products
// of attention weights near 0 would otherwise take a hundred times as long. The first exception of a body is
// thrown again here.
template <class F> void parallel_for(int64_t n, int64_t grain, const F& body);

void parallel_ranges(int64_t n, int64_t grain, void (*body)(const void*, int64_t, int64_t),
                     const void* state);

template <class F> void parallel_for(int64_t n, int64_t grain, const F& body) {
  parallel_ranges(
      n, grain, [](const void* f, int64_t begin, int64_t end) { (*static_cast<const F*>(f))(begin, end); },
      &body);
}

}  // namespace pursuit
