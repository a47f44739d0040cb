#include "engine/cpu/kept_factors.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

namespace pursuit {

namespace {

uint32_t writes_of(const Storage& storage) {
  const Version* version = version_of(storage);
  return version ? version->writes.load() : 0;
}

}  // namespace

struct KeptFactors::Kept {
  struct Factor {
    Storage numbers;
    uint32_t writes;  // to the weight, when they were made
  };
  std::vector<KeptWeight> weights;  // and their copies
  std::map<FactorPlace, Factor> factors;
  std::map<std::tuple<const void*, int64_t, DType>, Factor> copies;

  const KeptWeight* weight_of(const void* p) const {
    const auto found = std::find_if(weights.begin(), weights.end(), [&](const KeptWeight& w) {
      return p >= w.begin && p < static_cast<const char*>(w.begin) + w.bytes;
    });
    return found == weights.end() ? nullptr : &*found;
  }
};

namespace {

struct Living {
  std::mutex mutex;
  std::vector<KeptFactors::Kept*> all;
  std::atomic<int> count = 0;
};
Living& living() {
  static Living l;
  return l;
}

// f(kept, writes) of the weight to which p belongs, or null.
template <class F> Storage with_weight_of(const void* p, const F& f) {
  Living& l = living();
  if (l.count == 0) return {};
  const std::lock_guard lock(l.mutex);
  for (KeptFactors::Kept* kept : l.all)
    if (const KeptWeight* weight = kept->weight_of(p)) return f(*kept, writes_of(weight->storage));
  return {};
}

Storage allocate_kept(int64_t bytes) {
  const MemoryTag tag("kept factors");
  return allocate(cpu, bytes);
}

}  // namespace

KeptFactors::KeptFactors(std::vector<KeptWeight> weights) : kept_(std::make_unique<Kept>()) {
  kept_->weights = std::move(weights);
  Living& l = living();
  const std::lock_guard lock(l.mutex);
  l.all.push_back(kept_.get());
  ++l.count;
}

KeptFactors::~KeptFactors() {
  Living& l = living();
  const std::lock_guard lock(l.mutex);
  std::erase(l.all, kept_.get());
  --l.count;
}

Storage kept_factor(const FactorPlace& place, int64_t bytes, const std::function<void(void*)>& pack) {
  return with_weight_of(place.w, [&](KeptFactors::Kept& kept, uint32_t writes) {
    KeptFactors::Kept::Factor& factor = kept.factors[place];
    if (!factor.numbers || factor.writes != writes) {
      // In new memory: another thread may still multiply by the old.
      Storage numbers = allocate_kept(bytes);
      pack(numbers.get());
      factor = {std::move(numbers), writes};
    }
    return factor.numbers;
  });
}

Storage kept_copy(const void* x, int64_t n, DType dtype, const std::function<void(const Storage&)>& cast) {
  return with_weight_of(x, [&](KeptFactors::Kept& kept, uint32_t writes) {
    KeptFactors::Kept::Factor& copy = kept.copies[{x, n, dtype}];
    const bool is_new = !copy.numbers;
    if (is_new) {
      copy.numbers = allocate_kept(n * size_of(dtype));
      kept.weights.push_back({copy.numbers, copy.numbers.get(), n * size_of(dtype)});
    }
    if (is_new || copy.writes != writes) {
      cast(copy.numbers);
      copy.writes = writes;
    }
    return copy.numbers;
  });
}

}  // namespace pursuit
