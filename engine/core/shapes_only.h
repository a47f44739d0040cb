#pragma once
#include <cstdint>
#include <memory>

#include "engine/core/memory.h"

namespace pursuit {

class MemoryPool;

// While one lives, this thread's tensor computations only infer shapes: tensors have no memory, operators and
// copies compute nothing, and allocations come from a pool of addresses that are never accessed. So the
// memory that a step needs is known before it is allocated, however large. Existing tensors may take part;
// their values are not changed, but the gradients of leaves are: call zero_grad. Values must not be read, and
// tensors made meanwhile are useless afterwards. Temporary workspaces of kernels are not counted.
class ShapesOnly {
 public:
  ShapesOnly();
  ~ShapesOnly();
  ShapesOnly(const ShapesOnly&) = delete;
  ShapesOnly& operator=(const ShapesOnly&) = delete;

  // Peak bytes that the pool would have reserved, all devices together: live tensors and cached blocks
  // between them.
  int64_t peak() const;

 private:
  friend Storage allocate(Device device, int64_t bytes);
  std::shared_ptr<MemoryPool> pool_;
  ShapesOnly* before_;
};

bool shapes_only();  // whether one lives in this thread

}  // namespace pursuit
