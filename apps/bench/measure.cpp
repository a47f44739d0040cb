#include "apps/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/parallel.h"

namespace pursuit::bench {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
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
  const double start = now();
  for (int i = 0; i < 3 || now() < start + 0.2; ++i) step();

  std::vector<double> ms;
  const double begin = now(), queued_before = queued();
  for (double t = begin; int(ms.size()) < protocol.steps || t < begin + protocol.seconds;) {
    step();
    const double end = now();
    ms.push_back((end - t) * 1e3);
    t = end;
  }
  Measurement m;
  m.waited = (queued() - queued_before) / (now() - begin) / num_threads();
  std::sort(ms.begin(), ms.end());
  const size_t n = ms.size();
  m.steps = int(n);
  m.median_ms = (ms[n / 2] + ms[(n - 1) / 2]) / 2;
  m.min_ms = ms.front();
  m.max_ms = ms.back();
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
