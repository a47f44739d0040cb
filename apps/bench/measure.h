#pragma once
#include <cstdint>
#include <functional>

namespace pursuit::bench {

struct Protocol {
  int steps = 10;      // minimum number of timed samples
  double seconds = 1;  // minimum time
  // Waits for the device. A sample is then the mean of as many steps as take 20 ms, so that the host can run
  // ahead as in training. Empty: steps are synchronous, and each is a sample.
  std::function<void()> wait = {};
  // With several ranks: returns rank 0's value on all, so that all run the same number of steps.
  std::function<double(double)> of_rank_0 = {};
};

struct Measurement {
  int steps = 0;  // samples
  double median_ms = 0, min_ms = 0, max_ms = 0;
  // Median CPU time of a step, summed over the threads; for one thread the wall time on an idle machine.
  double cpu_ms = 0;
  // Fraction of time in which runnable threads waited for a CPU. More than a few percent mean a busy machine.
  double waited = 0;
};
constexpr double busy = 0.05;  // the largest `waited` of times that can be relied on

// Warms up with at least 3 steps and 0.2 s, then measures by the protocol.
Measurement measure(const std::function<void()>& step, const Protocol& protocol);

// The peak resident memory of this process in bytes since reset_peak_rss(), or since its start if the system
// refused the reset.
int64_t peak_rss();
void reset_peak_rss();

}  // namespace pursuit::bench
