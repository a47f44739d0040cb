#include "engine/shapes_only.h"

#include <algorithm>

namespace pursuit {

namespace {

thread_local ShapesOnly* innermost = nullptr;

}  // namespace

struct ShapesOnly::Counts {
  int64_t allocated = 0, peak = 0;
};

ShapesOnly::ShapesOnly() : counts_(std::make_shared<Counts>()), before_(innermost) { innermost = this; }
ShapesOnly::~ShapesOnly() { innermost = before_; }
int64_t ShapesOnly::peak() const { return counts_->peak; }
void ShapesOnly::reset_peak() { counts_->peak = counts_->allocated; }

bool shapes_only() { return innermost != nullptr; }

Storage allocate_shape(int64_t bytes) {
  constexpr int64_t round = 512;              // as the pool does
  constexpr int64_t most = int64_t(1) << 56;  // of one tensor, so that sums stay far from overflowing
  constexpr int64_t most_of_all = int64_t(1) << 61;
  const auto counts = innermost->counts_;
  if (bytes > most || counts->allocated > most_of_all)
    throw OutOfMemory("[memory] more is needed than any machine has: use a smaller model, batch or picture");
  const int64_t size = std::max(round, (bytes + round - 1) / round * round);
  counts->allocated += size;
  counts->peak = std::max(counts->peak, counts->allocated);
  void* const nowhere = reinterpret_cast<void*>(round);
  return Storage(nowhere, [counts, size](void*) { counts->allocated -= size; });
}

}  // namespace pursuit
