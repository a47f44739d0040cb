#pragma once
#include <atomic>
#include <utility>

#include "engine/core/tensor.h"

namespace pursuit {

// While an Observer lives, the innermost in a thread, `see` is called in this thread with the result of every
// recorded operator that is not a view, and with every gradient that its backward returns, before anything
// else reads them. It may change their values; tests use that to measure the effect of storing them in lower
// precision.
class Observer {
 public:
  explicit Observer(std::function<void(const Tensor&)> see);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

 private:
  std::function<void(const Tensor&)> see_;
  const std::function<void(const Tensor&)>* before_;
};

// Called by the tape.
void observe(const Tensor& t);

// Sees every operator call, forward and backward, in all threads; see engine/inspect. `call_observer` is the
// active one; if it is null, a call costs one pointer check.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // A call begins, possibly inside another one. Its allocations get the returned tag.
  virtual const char* begin(const char* name, bool backward) = 0;
  virtual void end(const Tensor& result) noexcept = 0;  // undefined after backward, and on failure
};
inline std::atomic<CallObserver*> call_observer = nullptr;

// Scope of one call of the operator `name`.
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
