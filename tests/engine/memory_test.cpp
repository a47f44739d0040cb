#include "engine/core/memory.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "engine/core/tensor.h"
#include "engine/ops.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

constexpr int64_t mib = 1 << 20;

// Limits and debugging end with the test, however it ends.
struct Restore {
  ~Restore() {
    set_memory_limit(cpu, 0);
    const char* debug = std::getenv("PURSUIT_ALLOC_DEBUG");
    set_memory_debug(debug && std::string(debug) == "1");
    empty_cache();
  }
};

}  // namespace

TEST_CASE("memory: blocks are aligned and counted, by the pool rounded") {
  const MemoryStats before = memory_stats();
  const Storage a = allocate(cpu, 1), b = allocate(cpu, 513), none = allocate(cpu, 0);
  CHECK(reinterpret_cast<uintptr_t>(a.get()) % 64 == 0);
  CHECK(reinterpret_cast<uintptr_t>(b.get()) % 64 == 0);
  CHECK(a != b);
  const MemoryStats now = memory_stats();
  CHECK(now.requested - before.requested == 514);
  CHECK(now.allocated - before.allocated >= (allocator() == "raw" ? 514 : 512 + 1024));
  CHECK(now.allocations - before.allocations == 3);
  CHECK(now.reserved >= now.allocated);
  CHECK_THROWS_AS(allocate(cpu, -1), Error);
}

POOL_TEST_CASE("memory: a freed block is used again, without the system") {
  Storage a = allocate(cpu, 3 * mib);
  const void* where = a.get();
  a.reset();
  const int64_t calls = memory_stats().system_allocations;
  for (int i = 0; i < 10; ++i) {
    const Storage again = allocate(cpu, 3 * mib);
    CHECK(again.get() == where);
  }
  CHECK(memory_stats().system_allocations == calls);
}

POOL_TEST_CASE("memory: blocks split and merge with their neighbours") {
  Restore restore;
  set_memory_debug(false);  // guards would lie between the blocks
  empty_cache();
  Storage whole = allocate(cpu, 64 * mib);
  char* start = static_cast<char*>(whole.get());
  const int64_t calls = memory_stats().system_allocations, reserved = memory_stats().reserved;
  const int64_t split_before = memory_stats().inactive_split;  // kernels' workspaces of other tests
  whole.reset();
  Storage a = allocate(cpu, 16 * mib), b = allocate(cpu, 16 * mib), c = allocate(cpu, 32 * mib);
  CHECK(a.get() == start);
  CHECK(b.get() == start + 16 * mib);
  CHECK(c.get() == start + 32 * mib);
  CHECK(memory_stats().reserved == reserved);
  a.reset();
  c.reset();
  CHECK(memory_stats().inactive_split == split_before + 48 * mib);
  b.reset();  // joins the neighbours on both sides
  CHECK(memory_stats().inactive_split == split_before);
  whole = allocate(cpu, 64 * mib);
  CHECK(whole.get() == start);
  CHECK(memory_stats().system_allocations == calls);
  whole.reset();
  empty_cache();
  CHECK(memory_stats().reserved <= reserved - 64 * mib);
}

POOL_TEST_CASE("memory: a best fit, not the first") {
  Restore restore;
  empty_cache();
  Storage large = allocate(cpu, 40 * mib), small = allocate(cpu, 10 * mib);
  const void* at = small.get();
  large.reset();
  small.reset();
  CHECK(allocate(cpu, 10 * mib).get() == at);
}

TEST_CASE("memory: out of memory says what was wanted and who holds what") {
  Restore restore;
  empty_cache();
  const MemoryStats before = memory_stats();
  set_memory_limit(cpu, before.reserved + 32 * mib);
  MemoryTag tag("the weights");
  const Storage held = allocate(cpu, 20 * mib);
  std::string message;
  try {
    allocate(cpu, 64 * mib);
  } catch (const OutOfMemory& e) {
    message = e.what();
  }
  CHECK(message.find("requested 64 MiB (67108864 bytes)") != std::string::npos);
  CHECK(message.find("limit") != std::string::npos);
  CHECK(message.find("the weights") != std::string::npos);
  CHECK(memory_stats().out_of_memory == before.out_of_memory + 1);
  CHECK(memory_stats().retries == before.retries + 1);
  // The cache is given back before an allocation fails.
  set_memory_limit(cpu, 0);
  empty_cache();
  const int64_t in_use = memory_stats().reserved;  // segments that other tests' scratch memory is in
  { const Storage cached = allocate(cpu, 30 * mib); }
  set_memory_limit(cpu, in_use + 64 * mib);
  CHECK_NOTHROW(allocate(cpu, 50 * mib));
  CHECK_THROWS_AS(allocate(cpu, INT64_MAX), OutOfMemory);
  CHECK_THROWS_AS(allocate(cpu, INT64_MAX - 511), OutOfMemory);
}

TEST_CASE("memory: the peak can be set back") {
  Restore restore;
  set_memory_debug(false);  // guards count as well
  { const Storage a = allocate(cpu, 8 * mib); }
  reset_peak_memory();
  const int64_t base = memory_stats().allocated_peak;
  CHECK(base == memory_stats().allocated);
  int64_t with = 0;  // a cached block may be a little larger
  {
    const Storage a = allocate(cpu, 8 * mib);
    with = memory_stats().allocated;
  }
  CHECK(with >= base + 8 * mib);
  CHECK(memory_stats().allocated_peak == with);
}

TEST_CASE("memory: debugging fills new blocks with NaN and finds writes outside of them") {
  Restore restore;
  set_memory_debug(true);
  const Tensor t = empty({5});
  for (double v : t.to_vector()) CHECK(std::isnan(v));
  CHECK_NOTHROW(check_guards());
  const int64_t before = guard_violations();
  for (int64_t at : {int64_t(5), int64_t(-1)}) {
    MemoryTag tag("the culprit");
    Tensor damaged = empty({5});
    damaged.data<float>()[at] = 1;
    CHECK_THROWS_WITH_AS(check_guards(), doctest::Contains("the culprit"), Error);
    damaged = Tensor();
    CHECK_NOTHROW(check_guards());
  }
  CHECK(guard_violations() == before + 2);
  Tensor good = empty({5});
  good.data<float>()[4] = 1;
  good = Tensor();
  CHECK(guard_violations() == before + 2);
}

TEST_CASE("memory: the summary shows live bytes by tag") {
  MemoryTag tag("activations of the test");
  const Storage a = allocate(cpu, 5 * mib);
  const std::string text = memory_summary();
  CHECK(text.find("activations of the test") != std::string::npos);
  CHECK(text.find("memory on cpu") != std::string::npos);
}
