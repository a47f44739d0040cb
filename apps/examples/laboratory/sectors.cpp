#include "apps/examples/laboratory/sectors.h"

#ifdef PURSUIT_SIMULATED
#include <algorithm>
#include <vector>

#include "cuda/simulated/simt.h"

namespace pursuit::laboratory {

namespace {

// The accesses of the running block.
struct Block {
  uint3 index{~0u, ~0u, ~0u};
  std::vector<bool> begun;                                   // by thread
  std::vector<std::vector<std::vector<uintptr_t>>> touched;  // by warp and access number

  // A new block begins when the block index changes or a thread begins again (the same block in another
  // launch or order).
  void enter(size_t thread, bool begins) {
    const bool same = index.x == blockIdx.x && index.y == blockIdx.y && index.z == blockIdx.z;
    if (!same || begun.size() != threads() || (begins && begun[thread])) {
      index = blockIdx;
      begun.assign(threads(), false);
      touched.assign((threads() + 31) / 32, {});
    }
    if (begins) begun[thread] = true;
  }
  static size_t threads() { return size_t(blockDim.x) * blockDim.y * blockDim.z; }
};

}  // namespace

int64_t new_sectors(int64_t number, const void* p, int64_t bytes) {
  static Block block;
  const size_t thread = threadIdx.x + blockDim.x * (threadIdx.y + size_t(blockDim.y) * threadIdx.z);
  block.enter(thread, number == 0);
  auto& numbers = block.touched[thread / 32];
  if (numbers.size() <= size_t(number)) numbers.resize(size_t(number) + 1);
  auto& sectors = numbers[size_t(number)];
  constexpr uintptr_t size = 32;
  const auto begin = reinterpret_cast<uintptr_t>(p);
  int64_t found = 0;
  for (uintptr_t s = begin / size; s <= (begin + uintptr_t(bytes) - 1) / size; ++s) {
    if (std::find(sectors.begin(), sectors.end(), s) != sectors.end()) continue;
    sectors.push_back(s);
    ++found;
  }
  return found;
}

}  // namespace pursuit::laboratory
#endif
