#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "engine/base/error.h"
#include "engine/core/device.h"

namespace pursuit {

struct OutOfMemory : Error {
  using Error::Error;
};

// Bytes unless said otherwise; the names are those of PyTorch's caching allocator.
struct MemoryStats {
  int64_t requested = 0;  // asked for and alive, before rounding
  int64_t allocated = 0;  // in live blocks
  int64_t allocated_peak = 0;
  int64_t reserved = 0;  // taken from the system: live and cached
  int64_t reserved_peak = 0;
  int64_t inactive_split = 0;  // cached remainders of split segments
  int64_t allocations = 0;     // calls, counts
  int64_t system_allocations = 0, system_frees = 0;
  int64_t retries = 0, out_of_memory = 0;
};

// One block of a device's pool, 512-byte rounded, at least 64-byte aligned. Freed when the last owner goes.
using Storage = std::shared_ptr<void>;

// Allocates from the device's caching pool; `tag` (default: the running operator) shows in memory_summary().
// Out of memory: frees the cache, tries once more, then throws OutOfMemory with the figures.
Storage allocate(Device device, int64_t bytes);

// How often a storage was overwritten in place, and by what last: backward learns by it whether what an
// operator saved is still what it was. Every tensor of the storage, view or whole, shares it, and a write to
// any of them counts. Counting is safe in any thread, but orders nothing: a thread that writes to a tensor
// which another uses must be ordered with it anyway (a join, a queue), and then the count is seen; of two
// writes side by side either may be named. Null for storages that `allocate` did not give.
struct Version {
  std::atomic<uint32_t> writes = 0;
  std::atomic<const char*> writer = "";
};
Version* version_of(const Storage& storage);
void count_write(const Storage& storage, const char* writer);

// Page-locked memory of the host, which a GPU copies from and to by itself; for buffers that are kept.
Storage allocate_pinned(int64_t bytes);

// Memory of a recorded graph, whose kernels keep the addresses. Blocks allocated on the device while it is
// open (until close) come from segments of its own and return there when they are freed, to serve the same
// recording only; memory that is freed meanwhile is not given back to the system. When it goes, its blocks
// are like all others. One can be open on a device.
class Arena {
 public:
  explicit Arena(Device device);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  void close();

 private:
  Device device_;
  int64_t number_;
};

MemoryStats memory_stats(Device device = cpu);
std::map<std::string, int64_t> memory_by_tag(Device device = cpu);  // bytes in live blocks
std::string memory_summary(Device device = cpu);  // the statistics and the live bytes by tag, as a table
void reset_peak_memory(Device device = cpu);
void empty_cache(Device device = cpu);                // gives cached segments back to the system
void set_memory_limit(Device device, int64_t bytes);  // reserved bytes at most; 0: no limit

// The name that allocations of this thread carry while it lives, e.g. the operator's or "weights".
class MemoryTag {
 public:
  explicit MemoryTag(const char* tag);
  ~MemoryTag();
  MemoryTag(const MemoryTag&) = delete;
  MemoryTag& operator=(const MemoryTag&) = delete;

 private:
  const char* before_;
};

// Debugging: new blocks are filled with NaN bits and have 256 guard bytes on both sides, checked when freed.
// Also on with PURSUIT_ALLOC_DEBUG=1. PURSUIT_ALLOC=raw passes every request on to the system, async those
// for a GPU to the driver's pool (cudaMallocAsync).
void set_memory_debug(bool on);
int64_t guard_violations();  // blocks found overrun so far
void check_guards();  // looks at every live block too; throws Error that names the tag of a damaged one

}  // namespace pursuit
