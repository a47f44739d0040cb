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

// s [m, cols] = scale q_i..i+m k_0..cols^T, plus the rows of `mask` if it has any; `keys` is k^T.
template <class T, class R> void attend_scores(const AttendShape& a, Rows<const T> q, Rows<const T> k,
                                               const RightFactor<T>& keys, int64_t i, int64_t m, int64_t cols,
                                               R* s, Rows<const R> mask = {}) {
  if constexpr (std::is_same_v<T, R>)
    if (q.p == k.p && m == a.n) return gram(a.n, a.d, R(a.scale), k.p, k.ld, s, a.n);
  keys.multiply(m, cols, a.d, R(a.scale), q.at(i), q.ld, R(0), s, cols);
  if (!mask.p) return;
  for (int64_t row = 0; row < m; ++row)
    rows<R>().bias_rows(s + row * cols, mask.at(i + row), nullptr, 1, cols, cols, 0);
}

// s [n] as an operand of products; if rounded, it is stored in scratch slot `slot` of T.
template <class T, class R> const T* as_factor(const R* s, int64_t n, int slot) {
  if constexpr (std::is_same_v<T, R>) {
    return s;
  } else {
    T* rounded = scratch<T>(slot, n);
    rows<R>().f32_to_bf16(s, words(rounded), n);
    return rounded;
  }
}

// Rows [begin, end) of out = map(softmax(scale q k^T + mask)) v; stats [queries, 2] receives what
// softmax_again_rows needs. mask [queries, n], not with q = k. Uses scratch slots 0, 8 and 9.
template <class T, class Out, class R>
void attend_forward(const AttendShape& a, Rows<const T> q, Rows<const T> k, Rows<const T> v, Rows<Out> out,
                    R* stats, int64_t begin, int64_t end, Rows<const R> mask = {}) {
  const int64_t block = a.block();
  R* s = scratch<R>(0, std::min(block, end - begin) * a.n);
  const Layout layout = a.layout();
  const RightFactor<T> keys(layout, true, k.p, k.ld, a.d, a.n, 8),
      values(layout, false, v.p, v.ld, a.n, a.d, 9);
  for (int64_t i = begin; i < end; i += block) {
    const int64_t m = std::min(block, end - i), cols = a.columns(i, m);
    attend_scores(a, q, k, keys, i, m, cols, s, mask);
    rows<R>().softmax_rows(s, m, cols, cols, stats + 2 * i, a.causal ? i : -1);
    if (a.clips()) rows<R>().clipped_softmax_rows(s, m, cols, cols, R(a.gamma), R(a.zeta));
    values.multiply(m, a.d, cols, R(1), as_factor<T>(s, m * cols, 0), cols, R(0), out.at(i), out.ld);
  }
}

// out [n, d] = softmax(scale q k^T)^T x, a sum over the rows x of all queries. Uses scratch slots 0, 1 and 8.
template <class R>
void attend_transposed(const AttendShape& a, Rows<const R> q, Rows<const R> k, Rows<const R> x, Rows<R> out) {
  const int64_t block = a.block(), blocks = (a.n + block - 1) / block;
  R *p = scratch<R>(0, block * a.n), *stats = scratch<R>(1, 2 * block);
  const RightFactor<R> keys(a.layout(), true, k.p, k.ld, a.d, a.n, 8);
  // From the last block, which has all columns and so initialises the sums of every key.
  for (int64_t b = blocks - 1; b >= 0; --b) {
    const int64_t i = b * block, m = std::min(block, a.n - i), cols = a.columns(i, m);
    attend_scores(a, q, k, keys, i, m, cols, p);
    rows<R>().softmax_rows(p, m, cols, cols, stats, a.causal ? i : -1);
    gemm(true, false, cols, a.d, m, R(1), p, cols, x.at(i), x.ld, R(b + 1 < blocks), out.p, out.ld);
  }
}

// Gradients for upstream go: gk is overwritten, gv <- beta gv + dv, gq <- beta gq + dq. gq and gk may be the
// same rows, which then receive the sum of both; gv.p is null if not needed. Uses scratch slots 0 to 2 and 8
// to 10.
template <class T, class R>
void attend_backward(const AttendShape& a, Rows<const T> q, Rows<const T> k, Rows<const T> v, const R* stats,
                     Rows<const T> go, Rows<R> gq, Rows<R> gk, Rows<R> gv, R beta, Rows<const R> mask = {}) {
  const int64_t block = a.block(), blocks = (a.queries + block - 1) / block;
  R* p = scratch<R>(0, block * a.n);
  R* g = scratch<R>(1, block * a.n);
  const Layout layout = a.layout();
  const RightFactor<T> keys(layout, true, k.p, k.ld, a.d, a.n, 8),
      values(layout, true, v.p, v.ld, a.d, a.n, 9), rows_of_keys(layout, false, k.p, k.ld, a.n, a.d, 10);
  // Starts with the last block: it has all columns, so it initialises the sums of every key and value.
  for (int64_t b = blocks - 1; b >= 0; --b) {
    const bool begins = b == blocks - 1;
    const int64_t i = b * block, m = std::min(block, a.queries - i), cols = a.columns(i, m);
    const R* clipped = p;
    attend_scores(a, q, k, keys, i, m, cols, p, mask);
    rows<R>().softmax_again_rows(p, m, cols, cols, stats + 2 * i, a.causal ? i : -1);
    values.multiply(m, cols, a.d, R(1), go.at(i), go.ld, R(0), g, cols);
    if (a.clips()) {
      R* c = scratch<R>(2, block * a.n);
      std::copy_n(p, m * cols, c);
      rows<R>().clipped_softmax_rows(c, m, cols, cols, R(a.gamma), R(a.zeta));
      rows<R>().clipped_softmax_grad_rows(p, g, m, cols, cols, R(a.gamma), R(a.zeta));
      clipped = c;
    }
    if (gv.p)
      gemm(true, false, cols, a.d, m, R(1), as_factor<T>(clipped, m * cols, 0), cols, go.at(i), go.ld,
           begins ? beta : R(1), gv.p, gv.ld);
    rows<R>().softmax_grad_rows(p, g, m, cols, cols, R(a.scale));
    if (q.p == k.p && gq.p == gk.p && m == a.n) {
      rows<R>().symmetrize(g, a.n, a.n);
      gemm(false, false, m, a.d, a.n, R(1), as_factor<T>(g, m * a.n, 0), a.n, k.p, k.ld, R(0), gk.p, gk.ld);
      return;
    }
    const T* ds = as_factor<T>(g, m * cols, 0);
    gemm(true, false, cols, a.d, m, R(1), ds, cols, q.at(i), q.ld, begins ? R(0) : R(1), gk.p, gk.ld);
    rows_of_keys.multiply(m, a.d, cols, R(1), ds, cols, gq.p == gk.p ? R(1) : beta, gq.at(i), gq.ld);
  }
}

}  // namespace pursuit
