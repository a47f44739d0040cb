#pragma once
#include <atomic>
#include <cstdint>

// What the CPU's products and convolutions have multiplied and added since the program began, for benchmarks:
// half as many as floating-point operations. Each product adds its own once.
namespace pursuit {

inline std::atomic<int64_t> multiply_adds_done = 0;

inline void count_multiply_adds(int64_t n) { multiply_adds_done.fetch_add(n, std::memory_order_relaxed); }

}  // namespace pursuit
