#pragma once
#include "cuda/runtime.h"
#include "engine/core/memory.h"

namespace pursuit::cuda {

// Memory for `count` numbers that kernels of one call need beside their arguments, from the current device's
// pool. Operators run on one stream, so it may go as soon as the kernels are launched.
template <class T> class Workspace {
 public:
  Workspace() = default;  // of nothing: data() is null
  explicit Workspace(int64_t count)
      : memory_(allocate(cuda_device(current_device()), count * int64_t(sizeof(T)))) {}
  T* data() const { return static_cast<T*>(memory_.get()); }

 private:
  Storage memory_;
};

}  // namespace pursuit::cuda
