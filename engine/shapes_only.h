#pragma once
#include <cstdint>
#include <memory>

#include "engine/memory.h"

namespace pursuit {

// While one lives, what this thread computes with tensors is done on their shapes alone: tensors have no
// memory behind them, operators and copies compute nothing, and what would be allocated is counted. So the
// memory of a step is known before it is taken, whatever its size. Tensors made before may take part and are
// left alone; values must not be looked at, and what is made meanwhile is of no use after. What kernels take
// for themselves while they run is not counted.
class ShapesOnly {
 public:
  ShapesOnly();
  ~ShapesOnly();
  ShapesOnly(const ShapesOnly&) = delete;
  ShapesOnly& operator=(const ShapesOnly&) = delete;

  int64_t peak() const;  // bytes that would have been alive at once, at most, on all devices together
  void reset_peak();     // to what is alive now

 private:
  struct Counts;
  friend Storage allocate_shape(int64_t bytes);
  std::shared_ptr<Counts> counts_;
  ShapesOnly* before_;
};

bool shapes_only();  // whether one lives in this thread
// The memory of a tensor while one lives: an address that nobody may use.
Storage allocate_shape(int64_t bytes);

}  // namespace pursuit
