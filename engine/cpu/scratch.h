#pragma once
#include "engine/core/memory.h"

namespace pursuit {

// This thread's scratch buffer number `slot`, with at least n elements, contents undefined. Valid until the
// next call for the same slot and type; kernels that call each other use different slots.
template <class R> R* scratch(int slot, int64_t n) {
  struct Buffer {
    Storage storage;
    int64_t size = 0;
  };
  static thread_local Buffer buffers[12];
  Buffer& b = buffers[slot];
  if (b.size < n) {
    MemoryTag tag("workspace");
    b.storage.reset();
    b.size = 0;  // in case the allocation throws
    b.storage = allocate(cpu, n * int64_t(sizeof(R)));
    b.size = n;
  }
  return static_cast<R*>(b.storage.get());
}

}  // namespace pursuit
