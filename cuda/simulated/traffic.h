#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

// Counts what launches move, for cuda/traffic.h. With -DPURSUIT_TRAFFIC=ON the compiler calls traffic.cpp at
// every load and store of the operators (the calls that it has for the thread sanitizer), and the GPU's memory
// is one range of addresses, so that those of other memory are told apart at once.
namespace simt {

// The launches, products and copies that run while one of these lives count as one launch of `name`.
class CountedLaunch {
 public:
  explicit CountedLaunch(const std::string& name);
  ~CountedLaunch();
  CountedLaunch(const CountedLaunch&) = delete;
  CountedLaunch& operator=(const CountedLaunch&) = delete;
};

// What the twins of libraries and instructions move, which the compiler does not see.
void count_read(const void* p, size_t bytes);
void count_written(const void* p, size_t bytes);
void count_multiply_adds(int64_t n);

#ifdef PURSUIT_TRAFFIC
void* take_counted_memory(size_t bytes);
void give_counted_memory(void* p, size_t bytes);
#endif

}  // namespace simt
