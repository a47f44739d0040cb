#pragma once
#include <chrono>

namespace pursuit::data {

// Adds the seconds that it lives.
class WaitTimer {
 public:
  explicit WaitTimer(double& seconds) : seconds_(seconds) {}
  ~WaitTimer() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  WaitTimer(const WaitTimer&) = delete;
  WaitTimer& operator=(const WaitTimer&) = delete;

 private:
  double& seconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace pursuit::data
