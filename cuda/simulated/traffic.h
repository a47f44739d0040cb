#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

// Counts the memory traffic of launches, for cuda/traffic.h. With -DPURSUIT_TRAFFIC=ON the compiler calls
// traffic.cpp at every load and store of the operators (the hooks of the thread sanitizer), and the GPU's
// memory is one address range, so that other memory is told apart at once.
namespace simt {

// The launches, products and copies during its lifetime count as one launch of `name`.
class CountedLaunch {
 public:
  explicit CountedLaunch(const std::string& name);
  ~CountedLaunch();
  CountedLaunch(const CountedLaunch&) = delete;
  CountedLaunch& operator=(const CountedLaunch&) = delete;
};

// Traffic of simulated library calls and instructions, which the compiler does not see.
void count_read(const void* p, size_t bytes);
void count_written(const void* p, size_t bytes);
void count_multiply_adds(int64_t n);

#ifdef PURSUIT_TRAFFIC
void* take_counted_memory(size_t bytes);
void give_counted_memory(void* p, size_t bytes);
#endif

}  // namespace simt
