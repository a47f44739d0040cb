#pragma once
#include <algorithm>

#include "engine/cpu/gemm.h"
#include "engine/cpu/right_factor.h"
#include "engine/cpu/rows.h"
#include "engine/cpu/scratch.h"
#include "engine/cpu/wide_rows.h"

// Attention of one head on the CPU. Products take operands of type T (float, double or bf16, to which scores
// are then rounded); everything else is computed in R (float or double). The score matrix is computed for one
// block of rows at a time, sized for the L2 cache; backward recomputes it from the rows' statistics. For
// causal attention a block has the columns up to its last row. Operands that several blocks share are packed
// once.
namespace pursuit {

struct AttendShape {
  int64_t n, d;  // keys, head width
  double scale;
  bool causal;
  double gamma = 0, zeta = 1;  // clipped softmax; 0 and 1: plain softmax
  int64_t queries = n;

  bool clips() const { return gamma != 0 || zeta != 1; }
  // Of a block of scores. Rows begin at cache lines, also as bf16, and lie an odd number of pairs of lines
  // apart: a power of two, as for 1024 columns, would put 16 rows into the same few sets of the L1 cache.
  int64_t stride() const { return 32 * ((n + 31) / 32 | 1); }
  // Rows per block. A causal block computes block / 2 columns too many per row on average.
  int64_t block() const {
    const int64_t fits = std::clamp<int64_t>(65536 / std::max<int64_t>(n, 1), 32, std::max<int64_t>(n, 32));
    return causal ? std::min<int64_t>(fits, 64) / 2 * 2 : fits;  // factors in bf16 are packed in pairs
  }
  // Of the operands that all blocks share. It depends on the head's size only, as sums over packed columns
  // are cut where those of causal blocks are not.
  Layout layout() const { return n > block() ? Layout::packed : Layout::as_is; }
  // The number of columns visible to rows [i, i + m).
  int64_t columns(int64_t i, int64_t m) const { return causal ? i + m : n; }
};

// s [m, cols] = alpha q_i..i+m k_0..cols^T; `keys` is k^T.
template <class T, class R> void attend_scores(const AttendShape& a, Rows<const T> q, Rows<const T> k,
                                               const RightFactor<T>& keys, int64_t i, int64_t m, int64_t cols,
                                               R alpha, R* s, int64_t ld) {
  if constexpr (std::is_same_v<T, R>)
    if (q.p == k.p && m == a.n) return gram(a.n, a.d, alpha, k.p, k.ld, s, ld);
  keys.multiply(m, cols, a.d, alpha, q.at(i), q.ld, R(0), s, ld);
}

// How the scores of rows from i on become weights.
template <class R> AttentionRows<R> attend_map(const AttendShape& a, int64_t i, Rows<const R> mask = {}) {
  return {R(a.scale), a.causal ? i : -1, mask.p ? mask.at(i) : nullptr, mask.ld, R(a.gamma), R(a.zeta)};
}

// n numbers that are computed in R and become a factor of type T: bf16 is rounded into memory of its own.
template <class T, class R> struct ScoreBlock {
  R* wide;
  T* rounded = nullptr;

  ScoreBlock(int slot, int64_t n) : wide(scratch<R>(slot, n)) {
    if constexpr (!std::is_same_v<T, R>) rounded = scratch<T>(slot, n);
  }
  uint16_t* words() const {
    if constexpr (std::is_same_v<T, R>)
      return nullptr;
    else
      return pursuit::words(rounded);
  }
  const T* factor() const {
    if constexpr (std::is_same_v<T, R>)
      return wide;
    else
      return rounded;
  }
};

// v, or v^T, as a factor for `calls` of attend_forward or attend_backward. Uses scratch slot 9.
template <class T> RightFactor<T> values_of(const AttendShape& a, Rows<const T> v, int calls = 1) {
  return {calls > 1 ? Layout::packed : a.layout(), false, v.p, v.ld, a.n, a.d, 9};
}
template <class T> RightFactor<T> transposed_values_of(const AttendShape& a, Rows<const T> v, int calls = 1) {
  return {calls > 1 ? Layout::packed : a.layout(), true, v.p, v.ld, a.d, a.n, 9};
}

// Rows [begin, end) of out = map(softmax(scale q k^T + mask)) v; stats [queries, 2] receives what backward
// needs. mask [queries, n], not with q = k. Uses scratch slots 0 and 8.
template <class T, class Out, class R>
void attend_forward(const AttendShape& a, Rows<const T> q, Rows<const T> k, const RightFactor<T>& values,
                    Rows<Out> out, R* stats, int64_t begin, int64_t end, Rows<const R> mask = {}) {
  const int64_t block = a.block(), ld = a.stride();
  const ScoreBlock<T, R> s(0, std::min(block, end - begin) * ld);
  const RightFactor<T> keys(a.layout(), true, k.p, k.ld, a.d, a.n, 8);
  for (int64_t i = begin; i < end; i += block) {
    const int64_t m = std::min(block, end - i), cols = a.columns(i, m);
    attend_scores(a, q, k, keys, i, m, cols, R(1), s.wide, ld);
    rows<R>().attention_rows(s.wide, m, cols, ld, attend_map(a, i, mask), stats + 2 * i, s.words());
    values.multiply(m, a.d, cols, R(1), s.factor(), ld, R(0), out.at(i), out.ld);
  }
}

// out [n, d] = softmax(scale q k^T)^T x, a sum over the rows x of all queries. Uses scratch slots 0 and 8.
template <class R>
void attend_transposed(const AttendShape& a, Rows<const R> q, Rows<const R> k, Rows<const R> x, Rows<R> out) {
  const int64_t block = a.block(), blocks = (a.n + block - 1) / block, ld = a.stride();
  R* p = scratch<R>(0, block * ld);
  const RightFactor<R> keys(a.layout(), true, k.p, k.ld, a.d, a.n, 8);
  // From the last block, which has all columns and so initialises the sums of every key.
  for (int64_t b = blocks - 1; b >= 0; --b) {
    const int64_t i = b * block, m = std::min(block, a.n - i), cols = a.columns(i, m);
    attend_scores(a, q, k, keys, i, m, cols, R(1), p, ld);
    rows<R>().attention_rows(p, m, cols, ld, attend_map<R>(a, i), nullptr, nullptr);
    gemm(true, false, cols, a.d, m, R(1), p, ld, x.at(i), x.ld, R(b + 1 < blocks), out.p, out.ld);
  }
}

// Gradients for upstream go: gk is overwritten, gv <- beta gv + dv, gq <- beta gq + dq. gq and gk may be the
// same rows, which then receive the sum of both; gv.p is null if not needed. Uses scratch slots 0, 1, 8 and
// 10.
template <class T, class R> void attend_backward(const AttendShape& a, Rows<const T> q, Rows<const T> k,
                                                 const RightFactor<T>& transposed_values, const R* stats,
                                                 Rows<const T> go, Rows<R> gq, Rows<R> gk, Rows<R> gv, R beta,
                                                 Rows<const R> mask = {}) {
  const int64_t block = a.block(), blocks = (a.queries + block - 1) / block, ld = a.stride();
  const ScoreBlock<T, R> p(0, block * ld), g(1, block * ld);
  const Layout layout = a.layout();
  const RightFactor<T> keys(layout, true, k.p, k.ld, a.d, a.n, 8),
      rows_of_keys(layout, false, k.p, k.ld, a.n, a.d, 10);
  // Starts with the last block: it has all columns, so it initialises the sums of every key and value.
  for (int64_t b = blocks - 1; b >= 0; --b) {
    const bool begins = b == blocks - 1;
    const int64_t i = b * block, m = std::min(block, a.queries - i), cols = a.columns(i, m);
    // One factor of symmetric scores receives (dS + dS^T) k.
    const bool both = q.p == k.p && gq.p == gk.p && m == a.n;
    attend_scores(a, q, k, keys, i, m, cols, R(1), p.wide, ld);
    transposed_values.multiply(m, cols, a.d, R(1), go.at(i), go.ld, R(0), g.wide, ld);
    rows<R>().attention_grad_rows(p.wide, g.wide, m, cols, ld, attend_map(a, i, mask), stats + 2 * i,
                                  p.words(), both ? nullptr : g.words());
    if (gv.p)
      gemm(true, false, cols, a.d, m, R(1), p.factor(), ld, go.at(i), go.ld, begins ? beta : R(1), gv.p,
           gv.ld);
    if (both) {
      rows<R>().symmetrize(g.wide, a.n, ld);
      if constexpr (!std::is_same_v<T, R>) rows<R>().f32_to_bf16(g.wide, g.words(), m * ld);
      gemm(false, false, m, a.d, a.n, R(1), g.factor(), ld, k.p, k.ld, R(0), gk.p, gk.ld);
      return;
    }
    gemm(true, false, cols, a.d, m, R(1), g.factor(), ld, q.at(i), q.ld, begins ? R(0) : R(1), gk.p, gk.ld);
    rows_of_keys.multiply(m, a.d, cols, R(1), g.factor(), ld, gq.p == gk.p ? R(1) : beta, gq.at(i), gq.ld);
  }
}

}  // namespace pursuit
