#pragma once
#include <cstdint>

namespace pursuit::laboratory {

// Counts the 32-byte sectors of [p, p + bytes) that the running thread's load or store `number` (0 for its
// first) touches and that the same load or store of other threads of its warp has not touched yet. Assumes
// that the threads of a warp make access `number` together, which is true if all take the same branches.
int64_t new_sectors(int64_t number, const void* p, int64_t bytes);

}  // namespace pursuit::laboratory
