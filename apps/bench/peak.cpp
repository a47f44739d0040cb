#include "apps/bench/peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "engine/cpu/bf16_tiles.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/rows.h"

namespace pursuit::bench {

namespace {

constexpr int times = 5;
constexpr double least_seconds = 0.01;

// The best rate of `work`, which returns how much it did on all threads, repeated for least_seconds.
template <class F> double best_rate(const F& work) {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (int i = 0; i < times; ++i) {
    const Clock::time_point start = Clock::now();
    double done = 0, seconds = 0;
    while (seconds < least_seconds) {
      done += work();
      seconds = std::chrono::duration<double>(Clock::now() - start).count();
    }
    best = std::max(best, done / seconds);
  }
  return best;
}

double multiply_add_rate(int64_t (*multiply_adds)(int64_t rounds)) {
  constexpr int64_t rounds = 1 << 16;  // a millisecond
  return 2e-9 * best_rate([&] {
           std::vector<int64_t> done(static_cast<size_t>(num_threads()));
           parallel_for(int64_t(done.size()), 1, [&](int64_t begin, int64_t end) {
             for (int64_t i = begin; i < end; ++i) done[size_t(i)] = multiply_adds(rounds);
           });
           double sum = 0;
           for (const int64_t n : done) sum += double(n);
           return sum;
         });
}

}  // namespace

Peak measure_peak() {
  const KeepAwake awake;
  Peak peak;
  peak.f32 = multiply_add_rate(rows<float>().multiply_adds);
  if (const Bf16Tiles* tiles = bf16_tiles()) peak.bf16 = multiply_add_rate(tiles->multiply_adds);
  std::vector<float> memory(size_t(64) << 20, 1.0f);
  std::atomic<double> sum = 0;
  peak.memory = 1e-9 * best_rate([&] {
                  parallel_for(int64_t(memory.size()), 1 << 20, [&](int64_t begin, int64_t end) {
                    sum += double(rows<float>().read_sum(memory.data() + begin, end - begin));
                  });
                  return double(memory.size() * sizeof(float));
                });
  return peak;
}

Peak larger(const Peak& a, const Peak& b) {
  return {std::max(a.f32, b.f32), std::max(a.bf16, b.bf16), std::max(a.memory, b.memory)};
}

}  // namespace pursuit::bench
