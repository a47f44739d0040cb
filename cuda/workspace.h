#pragma once
#include "cuda/runtime.h"
#include "engine/core/memory.h"

namespace pursuit::cuda {

// Temporary memory for `count` numbers, from the current device's pool, for the kernels of one call.
// Operators run on one stream, so it may be freed as soon as the kernels are launched.
template <class T> class Workspace {
 public:
  Workspace() = default;  // empty: data() is null
  explicit Workspace(int64_t count)
      : memory_(allocate(cuda_device(current_device()), count * int64_t(sizeof(T)))) {}
  T* data() const { return static_cast<T*>(memory_.get()); }

 private:
  Storage memory_;
};

}  // namespace pursuit::cuda
