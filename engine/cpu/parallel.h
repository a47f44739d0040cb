#pragma once
#include <algorithm>
#include <cstdint>

namespace pursuit {

// Threads used by CPU operators: the environment variable OMP_NUM_THREADS, else the cores available to this
// process, until set_num_threads is called. For a given number, results are reproducible.
int num_threads();
void set_num_threads(int n);

// While one lives, threads wait for the next operator up to ten times as long before they sleep: for a model
// that is used on little data at a time, where waking a thread would take as long as a product.
class KeepAwake {
 public:
  KeepAwake();
  ~KeepAwake();
  KeepAwake(const KeepAwake&) = delete;
  KeepAwake& operator=(const KeepAwake&) = delete;
};

// The grain that gives each thread a single range of at least `least`: for bodies with a cost per range, such
// as reading an operand or all rows again.
inline int64_t one_range_each(int64_t n, int64_t least) {
  return std::max<int64_t>(least, n / num_threads());
}

// Calls body(begin, end) on disjoint ranges that cover [0, n), on up to num_threads() threads. All ranges but
// the last are at least `grain` long. There are several per thread, because cores are not equally fast
// (another program may occupy the other hyperthread): the caller takes part, and threads that finish take
// over ranges that others have not started. Runs serially in the caller, as one range, inside another body or
// while another thread's call uses the workers. Denormals are flushed to 0 inside a body: otherwise products
// with attention weights near 0 would take a hundred times as long. The first exception of a body is rethrown
// here.
template <class F> void parallel_for(int64_t n, int64_t grain, const F& body);

void parallel_ranges(int64_t n, int64_t grain, void (*body)(const void*, int64_t, int64_t),
                     const void* state);

template <class F> void parallel_for(int64_t n, int64_t grain, const F& body) {
  parallel_ranges(
      n, grain, [](const void* f, int64_t begin, int64_t end) { (*static_cast<const F*>(f))(begin, end); },
      &body);
}

}  // namespace pursuit
