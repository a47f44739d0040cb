#pragma once
#include <atomic>
#include <utility>

#include "engine/core/tensor.h"

namespace pursuit {

// While one lives, `see` is called with every result of a recorded operator of this thread that is no view,
// and with every gradient that its backward gives, before anybody else reads them. It may change their
// values: so a test finds out what storing them in fewer digits costs.
class Observer {
 public:
  explicit Observer(std::function<void(const Tensor&)> see);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

 private:
  std::function<void(const Tensor&)> see_;
};

// What the tape calls.
void observe(const Tensor& t);

// Sees every call of an operator, forward and backward, in every thread; see engine/inspect. `call_observer` is the
// one that does; without one a call costs a look at a pointer.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // A call begins, perhaps within another one. What it allocates has the tag that this returns.
  virtual const char* begin(const char* name, bool backward) = 0;
  virtual void end(const Tensor& result) noexcept = 0;  // undefined for a backward, and where it failed
};
inline std::atomic<CallObserver*> call_observer = nullptr;

// Lives as long as a call of the operator `name`.
class OperatorCall {
 public:
  explicit OperatorCall(const char* name, bool backward = false)
      : observer_(call_observer.load(std::memory_order_acquire)),
        tag_(observer_ ? observer_->begin(name, backward) : name) {}
  ~OperatorCall() { end({}); }
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;
  void end(const Tensor& result) {
    if (observer_) std::exchange(observer_, nullptr)->end(result);
  }

 private:
  CallObserver* observer_;
  MemoryTag tag_;
};

}  // namespace pursuit
