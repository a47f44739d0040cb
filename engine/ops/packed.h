#pragma once
#include "engine/cpu/attend.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/wide_rows.h"
#include "engine/operator/operator.h"

// Packed projections [B, N, P, H, D], accessed head by head.
namespace pursuit {

struct PackedShape {
  int64_t batch, n, parts, heads, d;

  explicit PackedShape(const Tensor& x)
      : batch(x.size(0)), n(x.size(1)), parts(x.size(2)), heads(x.size(3)), d(x.size(4)) {}
  int64_t width() const { return heads * d; }
};

// Calls body(batch, head) for every head, in parallel.
template <class F> void for_each_head(const PackedShape& s, const F& body) {
  parallel_for(s.batch * s.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i / s.heads, i % s.heads);
  });
}

}  // namespace pursuit
