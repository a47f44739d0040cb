#pragma once
#include <cstdint>

namespace pursuit::data {

// A process's share of an epoch whose batches are consumed `of` at a time: one step of several
// processes, or of one that accumulates gradients. The share is batches `first` to `first + count - 1`
// of each step.
struct Share {
  int64_t first = 0, count = 1, of = 1;
};

// Throws Error that starts with `where` unless the share is valid.
void check(const char* where, const Share& share);

}  // namespace pursuit::data
