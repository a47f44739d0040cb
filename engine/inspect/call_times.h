#pragma once
#include <map>
#include <string>

#include "engine/core/observer.h"

namespace pursuit {

// While one lives, the time of its thread's operators is added up by name, forward and backward together, each
// without the calls inside it. It takes the place of a trace (engine/inspect/trace.h). One a process.
class CallTimes final : CallObserver {
 public:
  CallTimes();
  ~CallTimes() override;
  CallTimes(const CallTimes&) = delete;
  CallTimes& operator=(const CallTimes&) = delete;

  std::map<std::string, double> seconds() const;

 private:
  const char* begin(const char* name, bool backward) override;
  void end(const Tensor& result) noexcept override;
  CallObserver* before_;
};

}  // namespace pursuit
