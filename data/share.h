#pragma once
#include <cstdint>

namespace pursuit::data {

// What a process takes of an epoch whose batches are used up `of` at a time, as one step of several
// processes, or of one that accumulates gradients, uses them: batches `first` to `first + count - 1` of each
// step.
struct Share {
  int64_t first = 0, count = 1, of = 1;
};

// Throws Error that starts with `where` unless there is such a share.
void check(const char* where, const Share& share);

}  // namespace pursuit::data
