#include "cuda/simulated/traffic.h"

#ifdef PURSUIT_TRAFFIC
#include <sys/mman.h>

#include <regex>
#include <utility>

#include "cuda/traffic.h"
#include "engine/base/error.h"

namespace simt {

namespace {

using pursuit::cuda::KernelTraffic;

constexpr int64_t sector = 32;

std::vector<KernelTraffic>* counts = nullptr;  // null unless a count is in progress
KernelTraffic* launch = nullptr;               // the current launch

unsigned char* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) pursuit::fail("simt", "there are no addresses for the counted memory");
  return static_cast<unsigned char*>(p);
}

// Reserved addresses, each used once: the memory pool keeps its blocks.
class Range {
 public:
  static constexpr size_t bytes = size_t(1) << 36;
  void* take(size_t size) {
    constexpr size_t alignment = 4096;  // a page: what is given back has no neighbour on it
    unsigned char* p = next_;
    next_ += (size + alignment - 1) / alignment * alignment;
    if (next_ > begin_ + bytes) pursuit::fail("simt", "the range of the counted memory is used up");
    return p;
  }
  // At least `bytes` for memory outside the range.
  size_t offset(const void* p) const { return size_t(static_cast<const unsigned char*>(p) - begin_); }

 private:
  unsigned char *begin_ = reserve(bytes), *next_ = begin_;
};

Range& range() {
  static auto& r = *new Range;
  return r;
}

// The set of sectors that a launch has accessed.
class Touched {
 public:
  void add(const void* p, size_t bytes) {
    const size_t at = range().offset(p);
    if (at >= Range::bytes || bytes == 0) return;
    for (size_t s = at / sector; s <= (at + bytes - 1) / sector; ++s) {
      unsigned char& marks = marks_[s / 8];
      if (marks >> s % 8 & 1) continue;
      if (!marks) marked_.push_back(s / 8);
      marks = static_cast<unsigned char>(marks | 1 << s % 8);
      ++count_;
    }
  }
  // Returns their total bytes and clears the set.
  int64_t take() {
    for (const size_t m : marked_) marks_[m] = 0;
    marked_.clear();
    return sector * std::exchange(count_, 0);
  }

 private:
  unsigned char* marks_ = reserve(Range::bytes / sector / 8);  // one bit per sector
  std::vector<size_t> marked_;
  int64_t count_ = 0;
};

Touched& reads() {
  static auto& t = *new Touched;
  return t;
}
Touched& writes() {
  static auto& t = *new Touched;
  return t;
}

}  // namespace

CountedLaunch::CountedLaunch(const std::string& given) {
  if (!counts) return;
  const std::string name = std::regex_replace(given, std::regex("pursuit::(cuda::)?"), "");
  for (KernelTraffic& k : *counts)
    if (k.kernel == name) launch = &k;
  if (!launch) launch = &counts->emplace_back(KernelTraffic{name});
  ++launch->launches;
}

CountedLaunch::~CountedLaunch() {
  if (!launch) return;
  launch->read += reads().take();
  launch->written += writes().take();
  launch = nullptr;
}

void count_read(const void* p, size_t bytes) {
  if (launch) reads().add(p, bytes);
}
void count_written(const void* p, size_t bytes) {
  if (launch) writes().add(p, bytes);
}
void count_multiply_adds(int64_t n) {
  if (launch) launch->multiply_adds += n;
}

void* take_counted_memory(size_t bytes) { return range().take(bytes); }
void give_counted_memory(void* p, size_t bytes) { madvise(p, bytes, MADV_DONTNEED); }

}  // namespace simt

namespace pursuit::cuda {

std::vector<KernelTraffic> traffic_of(const std::function<void()>& work) {
  std::vector<KernelTraffic> counted;
  simt::counts = &counted;
  try {
    work();
  } catch (...) {
    simt::counts = nullptr;
    throw;
  }
  simt::counts = nullptr;
  return counted;
}

}  // namespace pursuit::cuda

#else

namespace simt {

CountedLaunch::CountedLaunch(const std::string&) {}
CountedLaunch::~CountedLaunch() = default;
void count_read(const void*, size_t) {}
void count_written(const void*, size_t) {}
void count_multiply_adds(int64_t) {}

}  // namespace simt

#endif
