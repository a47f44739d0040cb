#pragma once
#include <functional>
#include <memory>
#include <tuple>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/memory.h"

// Weights that many products on the CPU share, as in evaluation: laid out for them once, not by every call.
namespace pursuit {

// The numbers of a contiguous tensor in the CPU's memory.
struct KeptWeight {
  Storage storage;
  const void* begin;
  int64_t bytes;
};

// While one lives, what products and casts make of `weights`, or of parts of them, is kept: right factors as
// RowKernels::pack lays them out, and copies in another type. What was written since (Version) is made again,
// so results are the same to the last bit. It takes as much memory again as the weights.
class KeptFactors {
 public:
  explicit KeptFactors(std::vector<KeptWeight> weights);
  ~KeptFactors();
  KeptFactors(const KeptFactors&) = delete;
  KeptFactors& operator=(const KeptFactors&) = delete;

  struct Kept;

 private:
  std::unique_ptr<Kept> kept_;
};

// op(w) [k, n] for a w in memory with row stride ld.
struct FactorPlace {
  const void* w;
  int64_t ld, k, n;
  bool transposed;
  bool operator<(const FactorPlace& o) const {
    return std::tie(w, ld, k, n, transposed) < std::tie(o.w, o.ld, o.k, o.n, o.transposed);
  }
};
// The `bytes` that `pack` has filled, now or before; null where w belongs to no weights that are kept.
Storage kept_factor(const FactorPlace& place, int64_t bytes, const std::function<void(void*)>& pack);

// The n numbers of x in another type, which `cast` has filled and counted as a write, now or before; null where
// x belongs to no weights that are kept.
Storage kept_copy(const void* x, int64_t n, DType dtype, const std::function<void(const Storage&)>& cast);

}  // namespace pursuit
