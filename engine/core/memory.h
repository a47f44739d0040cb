#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/core/device.h"

namespace pursuit {

struct OutOfMemory : Error {
  using Error::Error;
};

// In bytes unless noted; named as in PyTorch's caching allocator.
struct MemoryStats {
  int64_t requested = 0;  // live bytes as requested, before rounding
  int64_t allocated = 0;  // live bytes, rounded
  int64_t allocated_peak = 0;
  int64_t reserved = 0;  // taken from the system: live and cached
  int64_t reserved_peak = 0;
  int64_t inactive_split = 0;  // cached remainders of split segments
  int64_t allocations = 0;     // number of calls
  int64_t system_allocations = 0, system_frees = 0;
  int64_t retries = 0, out_of_memory = 0;
};

// One block of a device's pool: a multiple of 512 bytes, at least 64-byte aligned. Freed with its last owner.
using Storage = std::shared_ptr<void>;

// Allocates from the device's caching pool, under the current MemoryTag (default: the running operator),
// which memory_summary() shows. If out of memory, frees the cache, retries, then throws OutOfMemory.
Storage allocate(Device device, int64_t bytes);

// Counts the in-place writes to a storage and names the last writer; backward uses it to detect that a saved
// tensor was overwritten. All views share their storage's version. Counting is thread safe but orders
// nothing: a thread that writes to a tensor used by another must be ordered with it anyway (by a join or a
// queue), and then the count is visible. If two threads write at the same time, either may be named as the
// last writer. Null for storages that did not come from `allocate`.
struct Version {
  std::atomic<uint32_t> writes = 0;
  std::atomic<const char*> writer = "";
};
Version* version_of(const Storage& storage);
void count_write(const Storage& storage, const char* writer);
// From now on lists the storages this thread writes to in place, for capturing a graph; null stops it.
void list_writes(std::vector<std::weak_ptr<void>>* storages);

// Page-locked host memory, which a GPU copies from and to asynchronously. Meant for long-lived buffers.
Storage allocate_pinned(int64_t bytes);

// Memory pool of a captured graph, whose kernels keep the addresses. While it is open, blocks allocated on
// the device come from segments of its own and return there when freed, so that only the same graph reuses
// them; no freed memory is returned to the system meanwhile. When it is destroyed, its blocks become ordinary
// ones. At most one can be open per device.
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
std::map<std::string, int64_t> memory_by_tag(Device device = cpu);  // live bytes
std::string memory_summary(Device device = cpu);  // statistics and live bytes by tag, as a table
void reset_peak_memory(Device device = cpu);
void empty_cache(Device device = cpu);                // returns cached segments to the system
void set_memory_limit(Device device, int64_t bytes);  // upper bound of reserved bytes; 0: none

// While it lives, allocations of this thread carry this name, e.g. the operator's or "weights".
class MemoryTag {
 public:
  explicit MemoryTag(const char* tag);
  ~MemoryTag();
  MemoryTag(const MemoryTag&) = delete;
  MemoryTag& operator=(const MemoryTag&) = delete;

 private:
  const char* before_;
};

// Debug mode: new blocks are filled with NaN bits and get 256 guard bytes on both sides, checked when freed.
// Also enabled by PURSUIT_ALLOC_DEBUG=1. PURSUIT_ALLOC=raw passes every request to the system; async passes
// those for a GPU to the driver's pool (cudaMallocAsync).
void set_memory_debug(bool on);
int64_t guard_violations();  // overrun blocks found so far
void check_guards();         // checks all live blocks too; throws Error that names the tag of a damaged one

}  // namespace pursuit
