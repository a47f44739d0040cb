#pragma once
#include <algorithm>

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

// Calls body(batch, head, begin, end) for rows [begin, end) of every head, in parallel. With so few heads that
// threads would wait for the last one, the rows are split too if `by_rows`.
template <class F> void for_each_part_of_heads(const PackedShape& s, bool by_rows, const F& body) {
  constexpr int64_t least_rows = 32, enough = 8;  // heads a thread
  const int64_t heads = s.batch * s.heads, threads = num_threads();
  const bool splits = by_rows && heads % threads != 0 && heads < enough * threads;
  const int64_t parts = splits ? std::clamp<int64_t>(s.n / least_rows, 1, threads) : 1;
  parallel_for(heads * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / parts, part = i % parts;
      const auto row = [&](int64_t p) { return p == parts ? s.n : s.n * p / parts / 8 * 8; };
      body(head / s.heads, head % s.heads, row(part), row(part + 1));
    }
  });
}

// Calls body(batch, head) for every head, in parallel.
template <class F> void for_each_head(const PackedShape& s, const F& body) {
  parallel_for(s.batch * s.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i / s.heads, i % s.heads);
  });
}

}  // namespace pursuit
