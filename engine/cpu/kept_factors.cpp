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
    uint32_t writes;          // to the weight, when they were made
    uint32_t own_writes = 0;  // of a copy: to itself, when it was made
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

  bool is_copy(const void* p) const {
    return std::any_of(copies.begin(), copies.end(), [&](const auto& c) {
      const char* const begin = static_cast<const char*>(c.second.numbers.get());
      return p >= begin && p < begin + std::get<1>(c.first) * size_of(std::get<2>(c.first));
    });
  }

  // Takes a copy off the weights, and the factors that were made of it.
  void forget(const void* begin) {
    const auto weight =
        std::find_if(weights.begin(), weights.end(), [&](const auto& w) { return w.begin == begin; });
    const void* const end = static_cast<const char*>(begin) + weight->bytes;
    std::erase_if(factors, [&](const auto& f) { return f.first.w >= begin && f.first.w < end; });
    weights.erase(weight);
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
    if (kept.is_copy(x)) return Storage();
    KeptFactors::Kept::Factor& copy = kept.copies[{x, n, dtype}];
    if (copy.numbers && copy.writes == writes && copy.own_writes == writes_of(copy.numbers))
      return copy.numbers;
    if (copy.numbers) kept.forget(copy.numbers.get());
    copy.numbers.reset();
    // In new memory: a tensor of the caller's may still be the old.
    const int64_t bytes = n * size_of(dtype);
    Storage numbers = allocate_kept(bytes);
    cast(numbers);
    kept.weights.push_back({numbers, numbers.get(), bytes});
    copy = {numbers, writes, writes_of(numbers)};
    return numbers;
  });
}

}  // namespace pursuit
