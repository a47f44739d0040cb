#pragma once
#include <cstdint>
#include <memory>

#include "engine/core/memory.h"

namespace pursuit {

class MemoryPool;

// While one lives, what this thread computes with tensors is done on their shapes alone: tensors have no
// memory behind them, operators and copies compute nothing, and what they allocate comes from a pool of
// addresses that nobody may use. So the memory of a step is known before it is taken, whatever its size.
// Tensors made before may take part and are left alone; values must not be looked at, and what is made
// meanwhile is of no use after. What kernels take for themselves while they run is not counted.
class ShapesOnly {
 public:
  ShapesOnly();
  ~ShapesOnly();
  ShapesOnly(const ShapesOnly&) = delete;
  ShapesOnly& operator=(const ShapesOnly&) = delete;

  // Bytes that the pool would have taken from the system, at most, for all devices together: tensors alive at
  // once, and the blocks that it keeps between them.
  int64_t peak() const;

 private:
  friend Storage allocate(Device device, int64_t bytes);
  std::shared_ptr<MemoryPool> pool_;
  ShapesOnly* before_;
};

bool shapes_only();  // whether one lives in this thread

}  // namespace pursuit
