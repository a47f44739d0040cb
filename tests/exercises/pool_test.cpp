#include <doctest/doctest.h>

#include "engine/core/memory.h"
#include "engine/core/shapes_only.h"

using namespace pursuit;

// 3 MiB reserve a segment of 4 MiB. When freed, its blocks are merged and serve 2.5 MiB; the remaining 1.5
// MiB are only for large requests. 300 KiB are a small request and reserve a segment of 2 MiB.
TEST_CASE("exercise: what the pool has reserved") {
  constexpr int64_t MiB = 1 << 20;
  const ShapesOnly pool_of_its_own;
  { const Storage first = allocate(cpu, 3 * MiB); }
  CHECK(pool_of_its_own.peak() == 4 * MiB);
  const Storage second = allocate(cpu, 5 * MiB / 2);
  CHECK(pool_of_its_own.peak() == 4 * MiB);
  const Storage third = allocate(cpu, 300 << 10);
  CHECK(pool_of_its_own.peak() == 6 * MiB);
}
