#include "apps/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/cpu/parallel.h"

namespace pursuit::bench {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return (v[v.size() / 2] + v[(v.size() - 1) / 2]) / 2;
}

// Seconds that the process's threads spent in a run queue, from the kernel's /proc/.../schedstat.
double queued() {
  double total = 0;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    double running = 0, waiting = 0;
    std::ifstream(task.path() / "schedstat") >> running >> waiting;
    total += waiting * 1e-9;
  }
  return total;
}

}  // namespace

Measurement measure(const std::function<void()>& step, const Protocol& protocol) {
  const auto agreed = [&](double value) { return protocol.of_rank_0 ? protocol.of_rank_0(value) : value; };
  int group = 1;
  const auto sample = [&] {
    for (int i = 0; i < group; ++i) step();
    if (protocol.wait) protocol.wait();
  };
  const double start = now();
  double last = 0;
  for (int i = 0; agreed(i < 3 || now() < start + 0.2); ++i) {
    const double t = now();
    sample();
    last = now() - t;
  }
  if (protocol.wait) group = int(agreed(std::clamp(int(0.02 / last), 1, 1000)));

  std::vector<double> ms, cpu_ms;
  const double begin = now(), queued_before = queued();
  for (double t = begin; agreed(int(ms.size()) < protocol.steps || t < begin + protocol.seconds);) {
    const std::clock_t cpu = std::clock();
    sample();
    const double end = now();
    ms.push_back((end - t) * 1e3 / group);
    cpu_ms.push_back(double(std::clock() - cpu) * 1e3 / CLOCKS_PER_SEC / group);
    t = end;
  }
  Measurement m;
  m.waited = (queued() - queued_before) / (now() - begin) / num_threads();
  m.steps = int(ms.size());
  m.median_ms = median(ms);
  m.min_ms = *std::min_element(ms.begin(), ms.end());
  m.max_ms = *std::max_element(ms.begin(), ms.end());
  m.cpu_ms = median(cpu_ms);
  return m;
}

int64_t peak_rss() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

void reset_peak_rss() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace pursuit::bench
