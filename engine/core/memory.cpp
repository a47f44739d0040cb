#include "engine/core/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "cuda/runtime.h"
#include "engine/core/shapes_only.h"

namespace pursuit {

namespace {

constexpr int64_t kRound = 512;
constexpr int64_t kMost = int64_t(1) << 56;  // rounding larger requests up would overflow
constexpr int64_t kSmall = 1 << 20;          // requests up to this share small segments
constexpr int64_t kSmallSegment = 2 << 20;   // size of such a segment
constexpr int64_t kLargeRound = 2 << 20;     // large segments are multiples of this (a huge page)
constexpr int64_t kGuard = 256;
constexpr unsigned char kGuardByte = 0xA5;

thread_local const char* current_tag = "other";
thread_local std::vector<std::weak_ptr<void>>* listed_writes = nullptr;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

struct Block {
  char* start;
  int64_t size;
  int64_t requested = 0;
  bool small;
  bool live = false;
  bool guarded = false;
  const char* tag = "";
  Block* before = nullptr;  // neighbours in the segment
  Block* after = nullptr;
  int64_t arena = 0;    // the arena that owns the block; 0: none
  bool direct = false;  // returned to the system when freed
  Version version = {};
};

struct ByFit {
  bool operator()(const Block* a, const Block* b) const {
    return std::tie(a->arena, a->size, a->start) < std::tie(b->arena, b->size, b->start);
  }
};

}  // namespace

// Best fit with splitting and merging within segments, like PyTorch's caching allocator. With `shapes_only`
// the segments are addresses that are never accessed.
class MemoryPool {
 public:
  explicit MemoryPool(Device device, bool shapes_only = false) : device_(device), shapes_only_(shapes_only) {
    if (shapes_only) {
      limit_ = int64_t(1) << 61;  // so that sums cannot overflow
      return;
    }
    const char* set = std::getenv("PURSUIT_ALLOC");
    const std::string mode = set ? set : "pool";
    if (mode != "pool" && mode != "raw" && mode != "async")
      fail("memory", "PURSUIT_ALLOC is '" + mode + "'; known are pool, raw and async");
    raw_ = mode == "raw";
    async_ = mode == "async" && device.is_cuda();
    const char* debug = std::getenv("PURSUIT_ALLOC_DEBUG");
    debug_ = debug && *debug == '1';
  }

  // Only a shapes-only pool is destroyed: its blocks are free by then, and no memory backs them.
  ~MemoryPool() {
    for (const auto& list : free_)
      for (const Block* b : list) delete b;
  }

  Block* take(int64_t bytes) {
    std::lock_guard lock(mutex_);
    ++stats_.allocations;
    if (bytes > kMost) {
      ++stats_.out_of_memory;
      throw OutOfMemory(no_memory_text(bytes));
    }
    const bool guarded = debug_ && !device_.is_cuda();
    const int64_t wanted = bytes + (guarded ? 2 * kGuard : 0);
    const int64_t size = direct() ? std::max<int64_t>(1, wanted) : std::max(kRound, round_up(wanted, kRound));
    Block* b = find(size);
    if (!b) b = grow(size);
    if (!b && !open_) {
      ++stats_.retries;
      trim_locked();
      b = grow(size);
    }
    if (!b) {
      ++stats_.out_of_memory;
      throw OutOfMemory(no_memory_text(bytes));
    }
    split(b, size);
    b->live = true;
    b->requested = bytes;
    b->tag = current_tag;
    b->guarded = guarded;
    stats_.requested += bytes;
    stats_.allocated += b->size;
    stats_.allocated_peak = std::max(stats_.allocated_peak, stats_.allocated);
    live_.insert(b);
    if (guarded) {
      std::memset(b->start, kGuardByte, size_t(kGuard));
      std::memset(b->start + kGuard, 0xFF, size_t(bytes));
      std::memset(b->start + kGuard + bytes, kGuardByte, size_t(b->size - kGuard - bytes));
    }
    return b;
  }

  void give(Block* b) noexcept {
    std::lock_guard lock(mutex_);
    if (b->guarded && !intact(b)) ++violations_;
    b->live = false;
    stats_.requested -= b->requested;
    stats_.allocated -= b->size;
    live_.erase(b);
    b = merge(b);
    if (b->direct && !b->arena && !open_) return release(b);
    free_[b->small].insert(b);
    if (!whole(b)) stats_.inactive_split += b->size;
  }

  // Arena ids start at 1.
  int64_t open_arena() {
    std::lock_guard lock(mutex_);
    if (open_) fail("memory", "an arena on " + device_.name() + " is open already");
    trim_locked();  // the arena keeps its segments for good, so release cached memory first
    return open_ = ++arenas_;
  }
  void close_arena(int64_t number) {
    std::lock_guard lock(mutex_);
    if (open_ != number) return;
    open_ = 0;
    release_direct();
  }
  void forget_arena(int64_t number) {
    std::lock_guard lock(mutex_);
    if (open_ == number) open_ = 0;
    for (auto& list : free_) {
      std::vector<Block*> moved;
      for (Block* b : list)
        if (b->arena == number) moved.push_back(b);
      for (Block* b : moved) {
        list.erase(b);
        b->arena = 0;
        list.insert(b);
      }
    }
    for (Block* b : live_)
      if (b->arena == number) b->arena = 0;
    release_direct();
  }

  void trim() {
    std::lock_guard lock(mutex_);
    trim_locked();
  }
  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_peak() {
    std::lock_guard lock(mutex_);
    stats_.allocated_peak = stats_.allocated;
    stats_.reserved_peak = stats_.reserved;
  }
  void set_limit(int64_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
  }
  void set_debug(bool on) {
    std::lock_guard lock(mutex_);
    debug_ = on;
  }
  int64_t violations() {
    std::lock_guard lock(mutex_);
    return violations_;
  }
  void check_live() {
    std::lock_guard lock(mutex_);
    for (const Block* b : live_)
      if (b->guarded && !intact(b))
        fail("memory", std::string("a write outside a block of ") + std::to_string(b->requested) +
                           " bytes tagged '" + b->tag + "'");
  }
  std::map<std::string, int64_t> by_tag() {
    std::lock_guard lock(mutex_);
    return tags();
  }

 private:
  static bool whole(const Block* b) { return !b->before && !b->after; }

  static bool intact(const Block* b) {
    const auto* p = reinterpret_cast<const unsigned char*>(b->start);
    const auto good = [](unsigned char c) { return c == kGuardByte; };
    return std::all_of(p, p + kGuard, good) && std::all_of(p + kGuard + b->requested, p + b->size, good);
  }

  Block* find(int64_t size) {
    if (direct()) return nullptr;
    auto& list = free_[size <= kSmall];
    Block key{nullptr, size, 0, size <= kSmall};
    key.arena = open_;
    const auto it = list.lower_bound(&key);
    if (it == list.end() || (*it)->arena != key.arena) return nullptr;
    Block* b = *it;
    list.erase(it);
    if (!whole(b)) stats_.inactive_split -= b->size;
    return b;
  }

  Block* grow(int64_t size) {
    const bool small = size <= kSmall && !direct();
    const int64_t bytes = small ? kSmallSegment : direct() ? size : round_up(size, kLargeRound);
    if (limit_ && stats_.reserved + bytes > limit_) return nullptr;
    void* p = system_allocate(bytes);
    if (!p) return nullptr;
    ++stats_.system_allocations;
    stats_.reserved += bytes;
    stats_.reserved_peak = std::max(stats_.reserved_peak, stats_.reserved);
    Block* b = new Block{static_cast<char*>(p), bytes, 0, small};
    b->arena = open_;
    b->direct = direct();
    return b;
  }

  void split(Block* b, int64_t size) {
    const int64_t rest = b->size - size;
    if (b->direct || rest < (b->small ? kRound : kSmall)) return;
    Block* tail = new Block{b->start + size, rest, 0, b->small};
    tail->arena = b->arena;
    tail->before = b;
    tail->after = b->after;
    if (tail->after) tail->after->before = tail;
    b->after = tail;
    b->size = size;
    free_[tail->small].insert(tail);
    stats_.inactive_split += rest;
  }

  Block* merge(Block* b) {
    if (b->after && !b->after->live) b = join(b, b->after, b->after);
    if (b->before && !b->before->live) b = join(b->before, b, b->before);
    return b;
  }
  Block* join(Block* left, Block* right, Block* cached) {
    free_[cached->small].erase(cached);
    stats_.inactive_split -= cached->size;
    left->size += right->size;
    left->after = right->after;
    if (left->after) left->after->before = left;
    delete right;
    return left;
  }

  void release(Block* b) noexcept {
    ++stats_.system_frees;
    stats_.reserved -= b->size;
    system_release(b);
    delete b;
  }

  // Frees blocks that were released while an arena was open, or that belonged to one.
  void release_direct() {
    release_where([](const Block* b) { return b->direct && !b->arena; });
  }

  void trim_locked() {
    if (device_.is_cuda() && !shapes_only_) cuda::synchronize(device_.index);
    release_where([](const Block* b) { return whole(b) && !b->arena; });
    if (async_) cuda::trim_async(device_.index);
  }

  template <class F> void release_where(const F& chosen) {
    for (auto& list : free_)
      for (auto it = list.begin(); it != list.end();) {
        Block* b = *it;
        if (chosen(b)) {
          it = list.erase(it);
          release(b);
        } else {
          ++it;
        }
      }
  }

  // Whether requests bypass the segments. An open arena always has segments of its own, except in raw
  // mode.
  bool direct() const { return raw_ || (async_ && !open_); }

  void* system_allocate(int64_t bytes) {
    if (shapes_only_) return reinterpret_cast<void*>(std::exchange(nowhere_, nowhere_ + bytes));
    if (device_.is_cuda() && async_ && direct()) return cuda::allocate_async(device_.index, size_t(bytes));
    if (device_.is_cuda()) return cuda::allocate(device_.index, size_t(bytes));
    const size_t alignment = bytes >= kLargeRound ? size_t(kLargeRound) : 64;
    void* p = std::aligned_alloc(alignment, size_t(round_up(bytes, int64_t(alignment))));
    // With huge pages the first write to an activation takes 1 page fault instead of 512.
    if (p && bytes >= kLargeRound) madvise(p, size_t(bytes), MADV_HUGEPAGE);
    return p;
  }
  void system_release(const Block* b) noexcept {
    if (shapes_only_) return;
    if (device_.is_cuda() && async_ && b->direct) return cuda::release_async(device_.index, b->start);
    if (device_.is_cuda()) return cuda::release(device_.index, b->start);
    std::free(b->start);
  }

  std::map<std::string, int64_t> tags() const {
    std::map<std::string, int64_t> sums;
    for (const Block* b : live_) sums[b->tag] += b->size;
    return sums;
  }

  std::string no_memory_text(int64_t bytes) const {
    if (shapes_only_)
      return "[memory] more is needed than any machine has: use a smaller model, batch or picture";
    int64_t largest = 0;
    for (const auto& list : free_)
      for (const Block* b : list) largest = std::max(largest, b->size);
    std::vector<std::pair<int64_t, std::string>> holders;
    for (const auto& [tag, sum] : tags()) holders.push_back({sum, tag});
    std::sort(holders.rbegin(), holders.rend());
    const auto mib = [](int64_t b) { return std::to_string(b / (1 << 20)) + " MiB"; };
    std::string text = "[memory] out of memory on " + device_.name() + ": requested " + mib(bytes) + " (" +
                       std::to_string(bytes) + " bytes), allocated " + mib(stats_.allocated) + ", cached " +
                       mib(stats_.reserved - stats_.allocated) + ", largest free block " + mib(largest);
    if (limit_) text += ", limit " + mib(limit_);
    if (device_.is_cuda()) {
      size_t free = 0, total = 0;
      cuda::memory_info(device_.index, free, total);
      text += ", device free " + mib(int64_t(free)) + " of " + mib(int64_t(total));
    }
    text += "; held by";
    for (size_t i = 0; i < std::min<size_t>(3, holders.size()); ++i)
      text += (i ? ", " : " ") + holders[i].second + " " + mib(holders[i].first);
    return text + ". Use a smaller batch";
  }

  Device device_;
  std::mutex mutex_;
  std::set<Block*, ByFit> free_[2];
  std::set<Block*> live_;
  MemoryStats stats_;
  int64_t limit_ = 0, violations_ = 0;
  int64_t arenas_ = 0, open_ = 0;
  const bool shapes_only_;
  bool raw_ = false, async_ = false, debug_ = false;
  uintptr_t nowhere_ = kLargeRound;  // start of the next shapes-only segment
};

namespace {

thread_local ShapesOnly* innermost = nullptr;

// Never destroyed: static tensors may outlive any other static object.
MemoryPool& pool(Device device) {
  static std::mutex mutex;
  static auto& pools = *new std::map<std::pair<int, int>, std::unique_ptr<MemoryPool>>;
  if (!device.is_cuda()) {
    static MemoryPool& host = *new MemoryPool(cpu);
    return host;
  }
  std::lock_guard lock(mutex);
  auto& p = pools[{int(device.kind), device.index}];
  if (!p) p = std::make_unique<MemoryPool>(device);
  return *p;
}

struct Release {
  MemoryPool* pool;
  Block* block;
  void operator()(void*) const noexcept { pool->give(block); }
};

}  // namespace

ShapesOnly::ShapesOnly() : pool_(std::make_shared<MemoryPool>(cpu, true)), before_(innermost) {
  innermost = this;
}
ShapesOnly::~ShapesOnly() { innermost = before_; }
int64_t ShapesOnly::peak() const { return pool_->stats().reserved_peak; }

bool shapes_only() { return innermost != nullptr; }

Storage allocate(Device device, int64_t bytes) {
  if (bytes < 0) fail("memory", "negative size");
  if (shapes_only()) {
    const auto shapes = innermost->pool_;
    Block* b = shapes->take(bytes);
    return Storage(b->start, [shapes, b](void*) { shapes->give(b); });
  }
  MemoryPool& p = pool(device);
  Block* b = p.take(bytes);
  return Storage(b->start + (b->guarded ? kGuard : 0), Release{&p, b});
}

Version* version_of(const Storage& storage) {
  const auto* release = std::get_deleter<Release>(storage);
  return release ? &release->block->version : nullptr;
}

void count_write(const Storage& storage, const char* writer) {
  Version* version = shapes_only() ? nullptr : version_of(storage);  // nothing is written there
  if (!version) return;
  version->writer = writer;
  ++version->writes;
  if (listed_writes) listed_writes->push_back(storage);
}

void list_writes(std::vector<std::weak_ptr<void>>* storages) { listed_writes = storages; }

Storage allocate_pinned(int64_t bytes) {
  if (shapes_only()) return allocate(cpu, 0);  // the host's shapes-only pool
  void* p = cuda::allocate_pinned(size_t(std::max<int64_t>(1, bytes)));
  if (!p)
    throw OutOfMemory("[memory] the system gives no more page-locked memory: requested " +
                      std::to_string(bytes) + " bytes; use a smaller batch");
  return Storage(p, [](void* memory) { cuda::release_pinned(memory); });
}

Arena::Arena(Device device) : device_(device), number_(pool(device).open_arena()) {}
Arena::~Arena() { pool(device_).forget_arena(number_); }
void Arena::close() { pool(device_).close_arena(number_); }

MemoryStats memory_stats(Device device) { return pool(device).stats(); }
void reset_peak_memory(Device device) { pool(device).reset_peak(); }
void empty_cache(Device device) { pool(device).trim(); }
void set_memory_limit(Device device, int64_t bytes) { pool(device).set_limit(bytes); }
void set_memory_debug(bool on) { pool(cpu).set_debug(on); }
int64_t guard_violations() { return pool(cpu).violations(); }
void check_guards() { pool(cpu).check_live(); }

std::map<std::string, int64_t> memory_by_tag(Device device) { return pool(device).by_tag(); }

std::string memory_summary(Device device) {
  const MemoryStats s = memory_stats(device);
  std::string text = "memory on " + device.name() + "\n";
  const auto line = [&](const char* name, int64_t bytes, int64_t peak) {
    char row[128];
    if (peak >= 0)
      std::snprintf(row, sizeof row, "  %-18s %12.2f MiB   peak %12.2f MiB\n", name,
                    double(bytes) / (1 << 20), double(peak) / (1 << 20));
    else
      std::snprintf(row, sizeof row, "  %-18s %12.2f MiB\n", name, double(bytes) / (1 << 20));
    text += row;
  };
  line("allocated", s.allocated, s.allocated_peak);
  line("reserved", s.reserved, s.reserved_peak);
  line("requested", s.requested, -1);
  line("inactive split", s.inactive_split, -1);
  text += "  " + std::to_string(s.allocations) + " allocations, " + std::to_string(s.system_allocations) +
          " from the system, " + std::to_string(s.system_frees) + " given back, " +
          std::to_string(s.retries) + " retries, " + std::to_string(s.out_of_memory) + " out of memory\n";
  for (const auto& [tag, bytes] : memory_by_tag(device)) line(tag.c_str(), bytes, -1);
  return text;
}

MemoryTag::MemoryTag(const char* tag) : before_(current_tag) { current_tag = tag; }
MemoryTag::~MemoryTag() { current_tag = before_; }

}  // namespace pursuit
