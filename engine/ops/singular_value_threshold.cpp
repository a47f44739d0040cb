#include <cmath>

#include "engine/cpu/batch_eigen.h"
#include "engine/cpu/scratch.h"
#include "engine/gemm.h"
#include "engine/linalg.h"
#include "engine/operator.h"
#include "engine/ops.h"
#include "engine/parallel.h"

namespace pursuit {

namespace {

// Matrices of m x n seen from their smaller side: with K = min(m, n) and G = A^T A (tall) or A A^T (wide),
// [K, K], D = A W or W A, where W = V diag(f) V^T, G = V diag(sigma^2) V^T and f = max(1 - tau / sigma, 0).
// Squaring is harmless: the singular values it drowns lie below tau.
struct Sides {
  int64_t m, n;
  bool wide() const { return m < n; }
  int64_t small() const { return std::min(m, n); }

  // to [K, K], row stride ld = alpha A^T B or alpha A B^T
  template <class T>
  void inner(T alpha, const T* a, const T* b, T* to, int64_t ld) const {
    const int64_t k = small();
    gemm(!wide(), wide(), k, k, std::max(m, n), alpha, a, n, b, n, T(0), to, ld);
  }
  // to [m, n] = beta to + alpha A W or alpha W A
  template <class T>
  void outer(T alpha, const T* a, const T* w, T beta, T* to) const {
    if (wide())
      gemm(false, false, m, n, m, alpha, w, m, a, n, beta, to, n);
    else
      gemm(false, false, m, n, n, alpha, a, n, w, n, beta, to, n);
  }
};

// A power of two that brings the largest entry to 1 ... 2, so that no square overflows or vanishes; NaN where
// an entry is NaN or infinite.
template <class T>
T scale_of(const T* a, int64_t n) {
  constexpr int lanes = 16;
  T top[lanes] = {}, bad[lanes] = {};
  for (int64_t i = 0; i + lanes <= n; i += lanes)
    for (int k = 0; k < lanes; ++k) {
      const T v = std::abs(a[i + k]);
      top[k] = v > top[k] ? v : top[k];
      bad[k] += v * T(0);
    }
  for (int64_t i = n / lanes * lanes; i < n; ++i) {
    top[0] = std::max(top[0], std::abs(a[i]));
    bad[0] += a[i] * T(0);
  }
  for (int k = 1; k < lanes; ++k) {
    top[0] = std::max(top[0], top[k]);
    bad[0] += bad[k];
  }
  if (bad[0] != bad[0]) return bad[0];
  return top[0] > 0 ? std::ldexp(T(1), std::clamp(-std::ilogb(top[0]), -120, 120)) : T(1);
}

// Above this size LAPACK's blocked reduction, with threads where the batch leaves some idle, is faster than
// lanes.
constexpr int64_t lane_limit = 160;

int64_t batch_grain(int64_t batch, int64_t k) { return k > lane_limit && batch < num_threads() ? batch : 1; }

}  // namespace

// Gradient in closed form: with upstream gradient E, C = V^T sym(A^T E) V (tall),
//   dA = E W + 2 A V (F o C) V^T,  dtau = -sum over sigma_i > tau of C_ii / sigma_i,
//   F_ij = tau / (sigma_i sigma_j (sigma_i + sigma_j)) where both are above tau (also i = j),
//        = f_i / (sigma_i^2 - sigma_j^2) where only sigma_i is, mirrored, and 0 where none is.
// Nowhere are close quantities subtracted, so repeated and vanishing singular values are harmless. At sigma =
// tau, where D has a kink, it takes the zero side.
struct SingularValueThreshold {
  static constexpr const char* name = "singular_value_threshold";
  bool recording = true;
  Tensor a = {}, tau = {};
  Tensor v = {}, sigma = {};  // [batch, K, K], row j the singular vector of sigma[batch, j]; in no order

  Sides sides() const { return {a.size(-2), a.size(-1)}; }

  // v and sigma are nullable. tau [batch].
  template <class T>
  static void kernel(Cpu, Sides side, int64_t batch, const T* a, const T* tau, T* d, T* v, T* sigma) {
    const int64_t k = side.small(), size = side.m * side.n, ld = eigen_stride<T>(k), lanes = eigen_lanes<T>;
    parallel_for(batch, batch_grain(batch, k), [&](int64_t begin, int64_t end) {
      T* gram = scratch<T>(0, lanes * k * ld);
      T* values = scratch<T>(1, lanes * k);
      T* scaled = scratch<T>(2, size);
      T* w = scratch<T>(3, k * k);
      T* weighted = scratch<T>(4, k * ld);
      T scale[lanes];
      for (int64_t first = begin; first < end; first += lanes) {
        const int64_t count = std::min(lanes, end - first);
        std::fill_n(gram, count * k * ld, T(0));
        for (int64_t i = 0; i < count; ++i) {
          const T* x = a + (first + i) * size;
          const T t = tau[first + i];
          if (t < 0)
            fail(name, "tau of matrix " + std::to_string(first + i) + " is " + std::to_string(t) +
                           ", need 0 or more");
          scale[i] = scale_of(x, size) + t * T(0);
          if (!(scale[i] > 0)) continue;
          for (int64_t j = 0; j < size; ++j) scaled[j] = x[j] * scale[i];
          side.inner(T(1), scaled, scaled, gram + i * k * ld, ld);
        }
        if (k <= lane_limit) {
          if (!batch_eigen(gram, count, k, values)) fail(name, "the eigenvalue iteration did not converge");
        } else {
          for (int64_t i = 0; i < count; ++i) symmetric_eigen(gram + i * k * ld, k, ld, values + i * k);
        }
        for (int64_t i = 0; i < count; ++i) {
          const int64_t b = first + i;
          const T *vectors = gram + i * k * ld, *lambda = values + i * k;
          int64_t above = 0;
          for (int64_t j = 0; j < k; ++j) {
            const T s = std::sqrt(std::max(lambda[j], T(0))) / scale[i];
            if (sigma) sigma[b * k + j] = s;
            if (v) std::copy_n(vectors + j * ld, k, v + (b * k + j) * k);
            if (!(s > tau[b])) continue;
            const T root_f = std::sqrt((s - tau[b]) / s);
            for (int64_t l = 0; l < k; ++l) weighted[above * k + l] = root_f * vectors[j * ld + l];
            ++above;
          }
          T* to = d + b * size;
          if (!(scale[i] > 0)) {
            std::fill_n(to, size, scale[i]);
          } else if (tau[b] == 0) {
            std::copy_n(a + b * size, size, to);
          } else {
            gemm(true, false, k, k, above, T(1), weighted, k, weighted, k, T(0), w, k);
            side.outer(T(1), a + b * size, w, T(0), to);
          }
        }
      }
    });
  }

  // da and dtau are nullable.
  template <class T>
  static void gradient(Cpu, Sides side, int64_t batch, const T* a, const T* tau, const T* v, const T* sigma,
                       const T* e, T* da, T* dtau) {
    const int64_t k = side.small(), size = side.m * side.n;
    parallel_for(batch, batch_grain(batch, k), [&](int64_t begin, int64_t end) {
      T* scaled = scratch<T>(0, size);
      T* c = scratch<T>(1, k * k);
      T* half = scratch<T>(2, k * k);
      T* w = scratch<T>(3, k * k);
      T* f = scratch<T>(4, k);
      for (int64_t b = begin; b < end; ++b) {
        const T *x = a + b * size, *vb = v + b * k * k, *sb = sigma + b * k, *eb = e + b * size;
        const T scale = scale_of(x, size) + tau[b] * T(0), t = tau[b] * scale;
        // In units where the largest entry of A is about 1.
        for (int64_t j = 0; j < size; ++j) scaled[j] = x[j] * scale;
        side.inner(T(1), scaled, eb, c, k);
        for (int64_t i = 0; i < k; ++i)
          for (int64_t j = 0; j < i; ++j) c[i * k + j] = c[j * k + i] = (c[i * k + j] + c[j * k + i]) / 2;
        gemm(false, false, k, k, k, T(1), vb, k, c, k, T(0), half, k);
        gemm(false, true, k, k, k, T(1), half, k, vb, k, T(0), c, k);
        if (dtau) {
          double total = 0;
          for (int64_t i = 0; i < k; ++i)
            if (sb[i] > tau[b]) total -= double(c[i * k + i]) / (double(sb[i]) * double(scale));
          dtau[b] = T(total);
        }
        if (!da) continue;
        for (int64_t i = 0; i < k; ++i) f[i] = sb[i] > tau[b] ? (sb[i] - tau[b]) / sb[i] : T(0);
        for (int64_t i = 0; i < k; ++i) {
          for (int64_t j = 0; j < k; ++j) {
            const bool i_above = sb[i] > tau[b], j_above = sb[j] > tau[b];
            const T si = sb[i] * scale, sj = sb[j] * scale;
            T factor = 0;
            if (i_above && j_above)
              factor = t / si / sj / (si + sj);
            else if (i_above)
              factor = f[i] / (si - sj) / (si + sj);
            else if (j_above)
              factor = f[j] / (sj - si) / (si + sj);
            c[i * k + j] *= factor;
          }
        }
        gemm(true, false, k, k, k, T(1), vb, k, c, k, T(0), half, k);
        gemm(false, false, k, k, k, T(1), half, k, vb, k, T(0), w, k);
        T* to = da + b * size;
        side.outer(T(2), scaled, w, T(0), to);
        for (int64_t i = 0; i < k; ++i)
          for (int64_t l = 0; l < k; ++l) half[i * k + l] = f[i] * vb[i * k + l];
        gemm(true, false, k, k, k, T(1), vb, k, half, k, T(0), w, k);
        side.outer(T(1), eb, w, T(1), to);
        if (tau[b] == 0) std::copy_n(eb, size, to);
      }
    });
  }

  Tensor forward(const Tensor& in, const Tensor& thresholds) {
    const DType type = in.dtype() == DType::bf16 ? DType::f32 : in.dtype();
    a = in.to(type).contiguous();
    tau = thresholds.to(type).contiguous();
    const int64_t batch = tau.numel(), k = sides().small();
    Tensor d = empty(a.shape(), type, a.device());
    if (recording) {
      v = empty({batch, k, k}, type, a.device());
      sigma = empty({batch, k}, type, a.device());
    }
    if (d.numel() == 0) return d.to(in.dtype());
    dispatch(a, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      if constexpr (!std::is_same_v<T, bf16>)
        launch<SingularValueThreshold>(dev, sides(), batch, a.data<T>(), tau.data<T>(), d.data<T>(),
                                       recording ? v.data<T>() : nullptr,
                                       recording ? sigma.data<T>() : nullptr);
    });
    return d.to(in.dtype());
  }
  Grads backward(const Tensor& gy, Needs needs) {
    const Tensor e = gy.to(a.dtype()).contiguous();
    Tensor da, dtau;
    if (needs[0]) da = zeros(a.shape(), a.dtype(), a.device());
    if (needs[1]) dtau = zeros(tau.shape(), a.dtype(), a.device());
    if (a.numel() > 0)
      dispatch(a, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
        if constexpr (!std::is_same_v<T, bf16>)
          launch_gradient<SingularValueThreshold>(
              dev, sides(), tau.numel(), a.data<T>(), tau.data<T>(), v.data<T>(), sigma.data<T>(),
              e.data<T>(), needs[0] ? da.data<T>() : nullptr, needs[1] ? dtau.data<T>() : nullptr);
      });
    return {needs[0] ? da.to(gy.dtype()) : da, needs[1] ? dtau.to(gy.dtype()) : dtau};
  }
  // By the singular value decomposition itself.
  Tensor reference(const Tensor& x, const Tensor& thresholds) const {
    const auto [u, s, vt] = svd(x.to(DType::f64).to(cpu));
    Shape column = s.shape();
    column.insert(column.size() - 1, 1);
    Shape one = thresholds.shape();
    one.push_back(1);
    const Tensor t = thresholds.to(DType::f64).to(cpu).reshape(one);
    return matmul(u * relu(s - t).reshape(column), vt).to(x.dtype()).to(x.device());
  }
  static std::vector<Sample<SingularValueThreshold>> samples() {
    return {{{}, {{{2, 7, 4}}, {{2}, 0.5, 1}}},   {{}, {{{3, 5, 12}}, {{3}, 0.5, 1.5}}},
            {{}, {{{20, 33, 17}}, {{20}, 1, 3}}}, {{}, {{{6, 6}}, {{}, 0.5, 1}}},
            {{}, {{{2, 1, 5}}, {{2}, 0.1, 0.2}}}, {{}, {{{0, 4, 3}}, {{0}, 1, 2}}}};
  }
};
PURSUIT_OPERATOR(SingularValueThreshold)

Tensor singular_value_threshold(const Tensor& a, const Tensor& tau) {
  if (a.ndim() < 2) fail("singular_value_threshold", "got " + a.str() + ", need [..., M, N]");
  if (a.dtype() != tau.dtype() || a.device() != tau.device())
    fail("singular_value_threshold",
         "got " + a.str() + " and tau " + tau.str() + "; bring them together with to()");
  Shape batch = a.shape();
  batch.erase(batch.size() - 1);
  batch.erase(batch.size() - 1);
  const bool recording = grad_enabled() && (a.needs_grad() || tau.needs_grad());
  return apply(SingularValueThreshold{recording}, a, expand(tau, batch));
}

Tensor singular_value_threshold(const Tensor& a, double tau) {
  if (!(tau >= 0)) fail("singular_value_threshold", "got tau " + std::to_string(tau) + ", need 0 or more");
  return singular_value_threshold(a, full({}, tau, a.dtype(), a.device()));
}

}  // namespace pursuit
