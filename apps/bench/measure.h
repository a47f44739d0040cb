#pragma once
#include <cstdint>
#include <functional>

namespace pursuit::bench {

struct Protocol {
  int steps = 10;      // timed samples, at least
  double seconds = 1;  // and for at least as long
  // Waits for the device. Then a sample is as many steps as take 20 ms, and their mean, so that the host may
  // run ahead as it does in training. Empty: a step has ended when it returns, and each is a sample.
  std::function<void()> wait = {};
  // Of several ranks: rank 0's value on all of them, so that all run as many steps.
  std::function<double(double)> of_rank_0 = {};
};

struct Measurement {
  int steps = 0;  // samples
  double median_ms = 0, min_ms = 0, max_ms = 0;
  // Median processor time, all threads together: with one thread what a step takes on an idle machine.
  double cpu_ms = 0;
  // Share of the threads' time in which they stood ready but waited for a processor. Figures with more than a
  // few percent were taken on a busy machine.
  double waited = 0;
};

// Runs the step for at least 3 times and 0.2 s untimed, then by the protocol.
Measurement measure(const std::function<void()>& step, const Protocol& protocol);

// Of this process, in bytes, since the last reset_peak_rss(), which may be refused: then since its start.
int64_t peak_rss();
void reset_peak_rss();

}  // namespace pursuit::bench
