#include "engine/core/observer.h"

namespace pursuit {

namespace {
thread_local const std::function<void(const Tensor&)>* seeing = nullptr;
}  // namespace

Observer::Observer(std::function<void(const Tensor&)> see) : see_(std::move(see)), before_(seeing) {
  seeing = &see_;
}
Observer::~Observer() { seeing = before_; }

void observe(const Tensor& t) {
  if (seeing) (*seeing)(t);
}

}  // namespace pursuit
