#include "engine/core/observer.h"

namespace pursuit {

namespace {
thread_local const std::function<void(const Tensor&)>* seeing = nullptr;
}  // namespace

Observer::Observer(std::function<void(const Tensor&)> see) : see_(std::move(see)) { seeing = &see_; }
Observer::~Observer() { seeing = nullptr; }

void observe(const Tensor& t) {
  if (seeing) (*seeing)(t);
}

}  // namespace pursuit
