#include "engine/inspect/call_times.h"

#include <chrono>
#include <vector>

namespace pursuit {

namespace {

using Clock = std::chrono::steady_clock;

// Of the thread that measures.
struct Times {
  std::vector<const char*> open;  // calls within calls
  Clock::time_point since;        // the innermost has run by itself
  std::map<std::string, double> seconds;

  // The innermost call, if there is one, has run until now.
  void settle() {
    const Clock::time_point now = Clock::now();
    if (!open.empty()) seconds[open.back()] += std::chrono::duration<double>(now - since).count();
    since = now;
  }
};
thread_local Times* times = nullptr;

}  // namespace

CallTimes::CallTimes() {
  if (times) fail("CallTimes", "this thread has one already");
  times = new Times;
  before_ = call_observer.exchange(this);
}
CallTimes::~CallTimes() {
  call_observer = before_;
  delete std::exchange(times, nullptr);
}

std::map<std::string, double> CallTimes::seconds() const { return times->seconds; }

const char* CallTimes::begin(const char* name, bool) {
  if (!times) return name;
  times->settle();
  times->open.push_back(name);
  return name;
}

void CallTimes::end(const Tensor&) noexcept {
  if (!times || times->open.empty()) return;
  times->settle();
  times->open.pop_back();
}

}  // namespace pursuit
