#pragma once
#include <cstdint>

namespace pursuit::laboratory {

// Of the simulated GPU's running thread: how many sectors of 32 bytes its load or store `number` (0 for its
// first) of [p, p + bytes) touches that the same load or store of other threads of its warp has not yet
// touched. Threads of a warp are taken to do their number n at the same time, which holds where all of them
// take the same branches.
int64_t new_sectors(int64_t number, const void* p, int64_t bytes);

}  // namespace pursuit::laboratory
