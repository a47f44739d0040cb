#pragma once
#include <algorithm>

#include "engine/cpu/rows.h"
#include "engine/cpu/scratch.h"
#include "engine/gemm.h"

// Attention of one head on the CPU, in R = float or double. The score matrix exists for one block of rows at
// a time, sized to stay in the L2 cache; backward computes it again from the rows' statistics.
namespace pursuit {

struct AttendShape {
  int64_t n, d;  // tokens, head width
  double scale;
  bool causal;
  double gamma = 0, zeta = 1;  // clipped softmax; 0 and 1 leave it plain

  bool clips() const { return gamma != 0 || zeta != 1; }
  int64_t block() const {
    return std::clamp<int64_t>(65536 / std::max<int64_t>(n, 1), 32, std::max<int64_t>(n, 32));
  }
};

template <class R>
struct Rows {  // [n, d] with row stride ld
  R* p;
  int64_t ld;
  R* at(int64_t i) const { return p + i * ld; }
};

// s [m, n] = scale q_i..i+m k^T.
template <class R>
void attend_scores(const AttendShape& a, Rows<const R> q, Rows<const R> k, int64_t i, int64_t m, R* s) {
  if (q.p == k.p && m == a.n)
    gram(a.n, a.d, R(a.scale), k.p, k.ld, s, a.n);
  else
    gemm(false, true, m, a.n, a.d, R(a.scale), q.at(i), q.ld, k.p, k.ld, R(0), s, a.n);
}

// out = map(softmax(scale q k^T)) v; stats [n, 2] receives what softmax_again_rows needs. Uses scratch slot
// 0.
template <class R>
void attend_forward(const AttendShape& a, Rows<const R> q, Rows<const R> k, Rows<const R> v, Rows<R> out,
                    R* stats) {
  const int64_t block = a.block();
  R* s = scratch<R>(0, block * a.n);
  for (int64_t i = 0; i < a.n; i += block) {
    const int64_t m = std::min(block, a.n - i);
    attend_scores(a, q, k, i, m, s);
    rows<R>().softmax_rows(s, m, a.n, a.n, stats + 2 * i, a.causal ? i : -1);
    if (a.clips()) rows<R>().clipped_softmax_rows(s, m, a.n, a.n, R(a.gamma), R(a.zeta));
    gemm(false, false, m, a.d, a.n, R(1), s, a.n, v.p, v.ld, R(0), out.at(i), out.ld);
  }
}

// The gradients for upstream go. gq and gk are overwritten and may be the same rows, which then receive the
// sum; gv <- gv_beta gv + dv. Uses scratch slots 0 to 2.
template <class R>
void attend_backward(const AttendShape& a, Rows<const R> q, Rows<const R> k, Rows<const R> v, const R* stats,
                     Rows<const R> go, Rows<R> gq, Rows<R> gk, Rows<R> gv, R gv_beta) {
  const int64_t block = a.block();
  R* p = scratch<R>(0, block * a.n);
  R* g = scratch<R>(1, block * a.n);
  for (int64_t i = 0; i < a.n; i += block) {
    const int64_t m = std::min(block, a.n - i);
    const R* clipped = p;
    attend_scores(a, q, k, i, m, p);
    rows<R>().softmax_again_rows(p, m, a.n, a.n, stats + 2 * i, a.causal ? i : -1);
    gemm(false, true, m, a.n, a.d, R(1), go.at(i), go.ld, v.p, v.ld, R(0), g, a.n);
    if (a.clips()) {
      R* c = scratch<R>(2, block * a.n);
      std::copy_n(p, m * a.n, c);
      rows<R>().clipped_softmax_rows(c, m, a.n, a.n, R(a.gamma), R(a.zeta));
      rows<R>().clipped_softmax_grad_rows(p, g, m, a.n, a.n, R(a.gamma), R(a.zeta));
      clipped = c;
    }
    gemm(true, false, a.n, a.d, m, R(1), clipped, a.n, go.at(i), go.ld, i == 0 ? gv_beta : R(1), gv.p, gv.ld);
    rows<R>().softmax_grad_rows(p, g, m, a.n, a.n, R(a.scale));
    if (q.p == k.p && gq.p == gk.p && m == a.n) {
      rows<R>().symmetrize(g, a.n, a.n);
      gemm(false, false, m, a.d, a.n, R(1), g, a.n, k.p, k.ld, R(0), gk.p, gk.ld);
      return;
    }
    gemm(true, false, a.n, a.d, m, R(1), g, a.n, q.at(i), q.ld, i == 0 ? R(0) : R(1), gk.p, gk.ld);
    gemm(false, false, m, a.d, a.n, R(1), g, a.n, k.p, k.ld, gq.p == gk.p ? R(1) : R(0), gq.at(i), gq.ld);
  }
}

}  // namespace pursuit
