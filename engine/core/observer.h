#pragma once
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

}  // namespace pursuit
