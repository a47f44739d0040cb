#pragma once
#include <cstdint>
#include <vector>

namespace pursuit::data {

// A permutation of 0 .. count-1, determined by (seed, epoch).
std::vector<int64_t> shuffled(int64_t count, uint64_t seed, int64_t epoch);

}  // namespace pursuit::data
