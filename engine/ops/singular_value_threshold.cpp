#include "cuda/singular_value_threshold.cuh"

#include <cmath>

#include "cuda/gemm.h"
#include "cuda/jacobi.cuh"
#include "cuda/sign_threshold.cuh"
#include "engine/cpu/batch_eigen.h"
#include "engine/cpu/gemm.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/scratch.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"
#include "engine/solve/linalg.h"

namespace pursuit {

namespace {

// Matrices of m x n, by their smaller side K = min(m, n): G = A^T A (tall) or A A^T (wide), [K, K], has the
// eigenvectors V and eigenvalues sigma^2, and D = A W or W A with W = V diag(f) V^T, f = max(1 - tau / sigma,
// 0). `product` multiplies like gemm in engine/cpu/gemm.h: one matrix, or all of a batch.
struct Sides {
  int64_t m, n;
  bool wide() const { return m < n; }
  int64_t small() const { return std::min(m, n); }
  int64_t large() const { return std::max(m, n); }

  // to [K, K], row stride ld = A^T B or A B^T
  template <class P, class T> void inner(const P& product, const T* a, const T* b, T* to, int64_t ld) const {
    product(!wide(), wide(), small(), small(), large(), T(1), a, n, b, n, T(0), to, ld);
  }
  // to [m, n] = beta to + alpha A W or alpha W A
  template <class P, class T>
  void outer(const P& product, T alpha, const T* a, const T* w, T beta, T* to) const {
    if (wide())
      product(false, false, m, n, m, alpha, w, m, a, n, beta, to, n);
    else
      product(false, false, m, n, n, alpha, a, n, w, n, beta, to, n);
  }
  // Applies the matrix to the rows of v [rank, K]: to [rank, large]
  template <class P, class T>
  void through(const P& product, const T* a, const T* v, int64_t rank, T* to) const {
    product(false, !wide(), rank, large(), small(), T(1), v, small(), a, n, T(0), to, large());
  }
  // to [m, n] = through^T v or v^T through
  template <class P, class T>
  void back(const P& product, const T* through, const T* v, int64_t rank, T* to) const {
    if (wide())
      product(true, false, m, n, rank, T(1), v, m, through, n, T(0), to, n);
    else
      product(true, false, m, n, rank, T(1), through, m, v, n, T(0), to, n);
  }
};

constexpr auto one_matrix = [](auto... x) { gemm(x...); };

#ifdef PURSUIT_GPU
// Multiplies all matrices of a dense batch.
struct BatchProduct {
  int64_t batch;
  void operator()(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                  const float* b, int64_t ldb, float beta, float* c, int64_t ldc) const {
    cuda::gemm({.m = m,
                .n = n,
                .k = k,
                .a = a,
                .lda = lda,
                .ta = ta,
                .b = b,
                .ldb = ldb,
                .tb = tb,
                .d = c,
                .ldd = ldc,
                .c = beta == 0 ? nullptr : c,
                .ldc = ldc,
                .alpha = alpha,
                .beta = beta,
                .batch = batch,
                .stride_a = m * k,
                .stride_b = k * n,
                .stride_c = m * n,
                .stride_d = m * n});
  }
};
#endif

// The power of two that brings the largest entry to 1 ... 2, so that squares neither overflow nor vanish; NaN
// if an entry is NaN or infinite.
template <class T> T scale_of(const T* a, int64_t n) {
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

template <class T> T* data_or_null(const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; }

// Above this size LAPACK's blocked reduction is faster than one matrix per lane.
constexpr int64_t lane_limit = 160;

}  // namespace

// Gradient in closed form: with upstream gradient E, C = V^T sym(A^T E) V (tall),
//   dA = E W + 2 A V (F o C) V^T,  dtau = -sum over sigma_i > tau of C_ii / sigma_i,
//   F_ij = tau / (sigma_i sigma_j (sigma_i + sigma_j)) where both are above tau (also i = j),
//        = f_i / (sigma_i^2 - sigma_j^2) where only sigma_i is, mirrored, and 0 where neither is.
// Close quantities are never subtracted, so repeated and vanishing singular values are harmless. At the kink
// sigma = tau it takes the zero side.
struct SingularValueThreshold {
  static constexpr const char* name = "singular_value_threshold";
  bool recording = true;
  Tensor a = {}, tau = {};
  Tensor v = {}, sigma = {};  // [batch, K, K], row j the singular vector of sigma[batch, j]; unsorted

  Sides sides() const { return {a.size(-2), a.size(-1)}; }

  // One matrix, from the eigendecomposition of its G (rows of `vectors`, stride ld; scaled by scale^2). v and
  // sigma are nullable. Scratch: vs, p and polished [K, K], b [K, large].
  template <class T> static void shrink(Sides side, const T* a, T tau, const T* vectors, const T* lambda,
                                        int64_t ld, T scale, T* d, T* v, T* sigma) {
    const int64_t k = side.small(), large = side.large();
    T *vs = scratch<T>(3, k * k), *p = scratch<T>(4, k * k), *polished = scratch<T>(5, k * k);
    T* b = scratch<T>(6, k * large);
    // First the vectors that may matter, so that the cost falls with the rank; the others only for the
    // gradient.
    const T least = tau * scale * T(0.5), top = *std::max_element(lambda, lambda + k);
    const auto counts = [&](int64_t j) { return lambda[j] > least * least - T(1e-4) * top; };
    int64_t rank = 0, total = 0;
    for (const bool first : {true, false}) {
      if (!first && !v) break;
      for (int64_t j = 0; j < k; ++j) {
        if (counts(j) != first) continue;
        std::copy_n(vectors + j * ld, k, vs + total * k);
        if (sigma) sigma[total] = std::sqrt(std::max(lambda[j], T(0))) / scale;
        ++total;
      }
      if (first) rank = total;
    }
    // Hundreds of rounded rotations leave the vectors orthogonal only to 1e-6 in f32; one Newton-Schulz step,
    // V <- (3 I - V V^T) V / 2, reduces that to the rounding error.
    gemm(false, true, total, total, k, T(-0.5), vs, k, vs, k, T(0), p, total);
    for (int64_t j = 0; j < total; ++j) p[j * total + j] += T(1.5);
    gemm(false, false, total, k, total, T(1), p, total, vs, k, T(0), polished, k);
    if (v) std::copy_n(polished, k * k, v);
    // sigma = |A v| instead of the root of the eigenvalue, which avoids a rounded square.
    side.through(one_matrix, a, polished, rank, b);
    int64_t above = 0;
    for (int64_t j = 0; j < rank; ++j) {
      T parts[16] = {};
      for (int64_t i = 0; i + 16 <= large; i += 16)
        for (int l = 0; l < 16; ++l)
          parts[l] += b[j * large + i + l] * scale * (b[j * large + i + l] * scale);
      for (int64_t i = large / 16 * 16; i < large; ++i)
        parts[0] += b[j * large + i] * scale * (b[j * large + i] * scale);
      for (int l = 1; l < 16; ++l) parts[0] += parts[l];
      const T s = std::sqrt(parts[0]) / scale;
      if (sigma) sigma[j] = s;
      if (!(s > tau)) continue;
      const T f = (s - tau) / s;
      for (int64_t l = 0; l < k; ++l) vs[above * k + l] = f * polished[j * k + l];
      if (above != j) std::copy_n(b + j * large, large, b + above * large);
      ++above;
    }
    side.back(one_matrix, b, vs, above, d);
  }

  // a and d [batch, m, n], tau [batch]; v [batch, K, K] and sigma [batch, K] may be undefined.
  template <class T> static void kernel(Cpu, Type<T>, Sides side, const Tensor& in, const Tensor& thresholds,
                                        const Tensor& out, const Tensor& vectors, const Tensor& values) {
    const T *a = in.data<T>(), *tau = thresholds.data<T>();
    T *d = out.data<T>(), *v = data_or_null<T>(vectors), *sigma = data_or_null<T>(values);
    const int64_t batch = thresholds.numel(), k = side.small(), size = side.m * side.n;
    const int64_t ld = eigen_stride<T>(k), lanes = eigen_lanes<T>;
    parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
      T* gram = scratch<T>(0, lanes * k * ld);
      T* lambda = scratch<T>(1, lanes * k);
      T* scaled = scratch<T>(2, size);
      T scale[lanes];
      for (int64_t first = begin; first < end; first += lanes) {
        const int64_t count = std::min(lanes, end - first);
        std::fill_n(gram, count * k * ld, T(0));
        for (int64_t i = 0; i < count; ++i) {
          const int64_t b = first + i;
          const T* x = a + b * size;
          if (tau[b] < 0)
            fail(name,
                 "tau of matrix " + std::to_string(b) + " is " + std::to_string(tau[b]) + ", need 0 or more");
          scale[i] = scale_of(x, size) + tau[b] * T(0);
          if (!(scale[i] > 0)) continue;
          for (int64_t j = 0; j < size; ++j) scaled[j] = x[j] * scale[i];
          side.inner(one_matrix, scaled, scaled, gram + i * k * ld, ld);
        }
        if (k <= lane_limit) {
          if (!batch_eigen(gram, count, k, lambda)) fail(name, "the eigenvalue iteration did not converge");
        } else {
          for (int64_t i = 0; i < count; ++i) symmetric_eigen(gram + i * k * ld, k, ld, lambda + i * k);
        }
        for (int64_t i = 0; i < count; ++i) {
          const int64_t b = first + i;
          T* to = d + b * size;
          shrink(side, a + b * size, tau[b], gram + i * k * ld, lambda + i * k, ld, scale[i], to,
                 v ? v + b * k * k : nullptr, sigma ? sigma + b * k : nullptr);
          if (!(scale[i] > 0)) std::fill_n(to, size, scale[i]);
          if (tau[b] == 0) std::copy_n(a + b * size, size, to);
        }
      }
    });
  }

  // da and dtau may be undefined.
  template <class T> static void gradient(Cpu, Type<T>, Sides side, const Tensor& in,
                                          const Tensor& thresholds, const Tensor& vectors,
                                          const Tensor& values, const Tensor& upstream, const Tensor& to_in,
                                          const Tensor& to_thresholds) {
    const T *a = in.data<T>(), *tau = thresholds.data<T>(), *v = vectors.data<T>(), *sigma = values.data<T>(),
            *e = upstream.data<T>();
    T *da = data_or_null<T>(to_in), *dtau = data_or_null<T>(to_thresholds);
    const int64_t batch = thresholds.numel(), k = side.small(), size = side.m * side.n;
    parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
      T* scaled = scratch<T>(0, size);
      T* c = scratch<T>(1, k * k);
      T* half = scratch<T>(2, k * k);
      T* w = scratch<T>(3, k * k);
      T* f = scratch<T>(4, k);
      for (int64_t b = begin; b < end; ++b) {
        const T *x = a + b * size, *vb = v + b * k * k, *sb = sigma + b * k, *eb = e + b * size;
        const T scale = scale_of(x, size) + tau[b] * T(0), t = tau[b] * scale;
        // In units in which the largest entry of A is about 1.
        for (int64_t j = 0; j < size; ++j) scaled[j] = x[j] * scale;
        side.inner(one_matrix, scaled, eb, c, k);
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
        side.outer(one_matrix, T(2), scaled, w, T(0), to);
        for (int64_t i = 0; i < k; ++i)
          for (int64_t l = 0; l < k; ++l) half[i * k + l] = f[i] * vb[i * k + l];
        gemm(true, false, k, k, k, T(1), vb, k, half, k, T(0), w, k);
        side.outer(one_matrix, T(1), eb, w, T(1), to);
        if (tau[b] == 0) std::copy_n(eb, size, to);
      }
    });
  }

#ifdef PURSUIT_GPU
  // Negative thresholds give NaN, as the host cannot read them. Uses singular vectors if the gradient will
  // need them, for narrow matrices, where a warp's rotations are the least work, and for matrices too wide
  // for a block; otherwise matrix signs.
  static void kernel(Cuda, Type<float>, Sides side, const Tensor& in, const Tensor& thresholds,
                     const Tensor& out, const Tensor& vectors, const Tensor& values) {
    const int64_t batch = thresholds.numel(), k = side.small(), size = side.m * side.n;
    const Tensor scaled = empty_like(in), scale = empty_like(thresholds);
    const float* tau = thresholds.data<float>();
    cuda::launch<cuda::svt_scale_kernel>({unsigned(batch), 256, cuda::shared_size<float>(32)},
                                         in.data<float>(), tau, scaled.data<float>(), scale.data<float>(),
                                         size);
    if (vectors.defined() || k <= 16 || k > cuda::sign_largest())
      by_vectors(side, scaled, scale, thresholds, out, vectors, values);
    else
      by_signs(side, scaled, scale, thresholds, out);
    cuda::launch<cuda::svt_whole_kernel>({unsigned(batch), 256}, in.data<float>(), tau, out.data<float>(),
                                         size);
  }

  static void by_signs(Sides side, const Tensor& scaled, const Tensor& scale, const Tensor& thresholds,
                       const Tensor& out) {
    const int64_t batch = thresholds.numel(), k = side.small(), rows = (side.large() + 15) / 16 * 16;
    const Tensor x = empty({batch, cuda::sign_scratch(k, rows)}, DType::f32, out.device());
    cuda::sign_threshold(
        batch, {scaled.data<float>(), thresholds.data<float>(), scale.data<float>(), out.data<float>(),
                x.numel() > 0 ? x.data<float>() : nullptr, int(side.large()), int(k), int(rows),
                side.wide() ? 1 : side.n, side.wide() ? side.n : 1});
  }

  // Writes the eigenvectors of the Gram matrices of a [batch, m, n] to basis [batch, K, K], and their
  // products with the matrices. Scratch: turn [batch, K, K].
  static void find_eigenvectors(Sides side, const float* a, const Tensor& basis, const Tensor& turn,
                                const Tensor& through) {
    const int64_t batch = basis.size(0), k = side.small(), large = side.large();
    const BatchProduct product{batch};
    const Tensor gram = empty_like(basis);
    float *g = gram.data<float>(), *t = turn.data<float>(), *v = basis.data<float>(),
          *b = through.data<float>();
    // An entry of G carries the rounding of sigma_1^2, which hides a sigma of sigma_1 / 1000. In the basis
    // just found it carries that of sigma_i sigma_j, and a second decomposition finds the rest.
    for (const bool again : {false, true}) {
      if (again)
        product(false, true, k, k, large, 1, b, large, b, large, 0, g, k);
      else
        side.inner(product, a, a, g, k);
      cuda::jacobi(batch, k, g, t, again ? 0x1p-18f : 0x1p-10f);
      if (again) {
        product(false, false, k, k, k, 1, t, k, v, k, 0, g, k);
        copy_values(turn, gram);
      }
      // One Newton-Schulz step, V <- (3 I - V V^T) V / 2, as on the CPU.
      copy_values(basis, turn);
      product(false, true, k, k, k, 1, t, k, t, k, 0, g, k);
      product(false, false, k, k, k, -0.5f, g, k, t, k, 1.5f, v, k);
      side.through(product, a, v, k, b);
    }
  }

  static void by_vectors(Sides side, const Tensor& scaled, const Tensor& scale, const Tensor& thresholds,
                         const Tensor& out, const Tensor& vectors, const Tensor& values) {
    const int64_t batch = thresholds.numel(), k = side.small(), large = side.large();
    const BatchProduct product{batch};
    const Tensor basis = vectors.defined() ? vectors : empty({batch, k, k}, DType::f32, out.device());
    const Tensor through = empty({batch, k, large}, DType::f32, out.device()), turn = empty_like(basis);
    const float* a = scaled.data<float>();
    float *v = basis.data<float>(), *b = through.data<float>(), *t = turn.data<float>();
    if (k <= cuda::jacobi_largest) {
      find_eigenvectors(side, a, basis, turn, through);
    } else {
      const Svd found = svd(scaled.reshape({batch, side.m, side.n}));
      copy_values(basis, side.wide() ? found.u.transpose(1, 2) : found.vt);
      side.through(product, a, v, k, b);
    }
    const int64_t rows = batch * k, rows_a_block = 8;
    cuda::launch<cuda::svt_keep_kernel>({unsigned((rows + rows_a_block - 1) / rows_a_block), 256}, b, v,
                                        thresholds.data<float>(), scale.data<float>(),
                                        data_or_null<float>(values), t, rows, int(k), large);
    side.back(product, b, t, k, out.data<float>());
  }

  static void gradient(Cuda, Type<float>, Sides side, const Tensor& in, const Tensor& thresholds,
                       const Tensor& vectors, const Tensor& values, const Tensor& upstream,
                       const Tensor& to_in, const Tensor& to_thresholds) {
    const int64_t batch = thresholds.numel(), k = side.small(), size = side.m * side.n;
    const BatchProduct product{batch};
    const Tensor scaled = empty_like(in), scale = empty_like(thresholds);
    const Tensor inner = empty_like(vectors), half = empty_like(vectors), kept = empty_like(vectors);
    float *c = inner.data<float>(), *h = half.data<float>();
    const float *a = scaled.data<float>(), *v = vectors.data<float>(), *e = upstream.data<float>(),
                *tau = thresholds.data<float>();
    const size_t shared = cuda::shared_size<float>(32);
    cuda::launch<cuda::svt_scale_kernel>({unsigned(batch), 256, shared}, in.data<float>(), tau,
                                         scaled.data<float>(), scale.data<float>(), size);
    side.inner(product, a, e, c, k);
    product(false, false, k, k, k, 1, v, k, c, k, 0, h, k);
    product(false, true, k, k, k, 1, h, k, v, k, 0, c, k);
    cuda::launch<cuda::svt_weights_kernel>({unsigned(batch), 256, shared}, c, v, values.data<float>(), tau,
                                           scale.data<float>(), kept.data<float>(),
                                           data_or_null<float>(to_thresholds), int(k));
    if (!to_in.defined()) return;
    float* da = to_in.data<float>();
    product(true, false, k, k, k, 1, v, k, c, k, 0, h, k);
    product(false, false, k, k, k, 1, h, k, v, k, 0, c, k);
    side.outer(product, 2.0f, a, c, 0.0f, da);
    product(true, false, k, k, k, 1, v, k, kept.data<float>(), k, 0, h, k);
    side.outer(product, 1.0f, e, h, 1.0f, da);
    cuda::launch<cuda::svt_whole_kernel>({unsigned(batch), 256}, e, tau, da, size);
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& thresholds) {
    const DType type = compute_type(in.dtype());
    a = in.to(type).contiguous();
    tau = thresholds.to(type).contiguous();
    const int64_t batch = tau.numel(), k = sides().small();
    Tensor d = empty(a.shape(), type, a.device());
    if (recording) {
      v = empty({batch, k, k}, type, a.device());
      sigma = empty({batch, k}, type, a.device());
    }
    if (d.numel() == 0) return d.to(in.dtype());
    dispatch(a, name, [&]<class Dev, class T>(Dev dev, Type<T> t) {
      if constexpr (!std::is_same_v<T, bf16>)
        launch<SingularValueThreshold>(dev, t, sides(), a, tau, d, v, sigma);
    });
    return d.to(in.dtype());
  }
  Grads backward(const Tensor& gy, Needs needs) {
    const Tensor e = gy.to(a.dtype()).contiguous();
    Tensor da, dtau;
    if (needs[0]) da = zeros(a.shape(), a.dtype(), a.device());
    if (needs[1]) dtau = zeros(tau.shape(), a.dtype(), a.device());
    if (a.numel() > 0)
      dispatch(a, name, [&]<class Dev, class T>(Dev dev, Type<T> t) {
        if constexpr (!std::is_same_v<T, bf16>)
          launch_gradient<SingularValueThreshold>(dev, t, sides(), a, tau, v, sigma, e, da, dtau);
      });
    return {needs[0] ? da.to(gy.dtype()) : da, needs[1] ? dtau.to(gy.dtype()) : dtau};
  }
  // By the singular value decomposition.
  Tensor reference(const Tensor& x, const Tensor& thresholds) const {
    const auto [u, s, vt] = svd(x.to(DType::f64).to(cpu));
    Shape column = s.shape();
    column.insert(column.size() - 1, 1);
    Shape one = thresholds.shape();
    one.push_back(1);
    const Tensor t = thresholds.to(DType::f64).to(cpu).reshape(one);
    return matmul(u * relu(s - t).reshape(column), vt).to(x.dtype()).to(x.device());
  }
  // Among 20 matrices or 33 singular values some are close together, which magnifies rounding.
  static std::vector<Sample<SingularValueThreshold>> samples() {
    return {{{}, {{{2, 7, 4}}, {{2}, 0.5, 1}}},      {{}, {{{3, 5, 12}}, {{3}, 0.5, 1.5}}},
            {{}, {{{20, 33, 15}}, {{20}, 1, 3}}, 4}, {{}, {{{6, 6}}, {{}, 0.5, 1}}},
            {{}, {{{2, 1, 5}}, {{2}, 0.1, 0.2}}},    {{}, {{{0, 4, 3}}, {{0}, 1, 2}}},
            {{}, {{{17, 20}}, {{}, 1, 2}}},          {{}, {{{1, 48, 33}}, {{1}, 1, 3}}, 4},
            {{}, {{{2, 66, 70}}, {{2}, 2, 5}}, 4}};
  }
};
PURSUIT_OPERATOR(SingularValueThreshold)

Tensor singular_value_threshold(const Tensor& a, const Tensor& tau) {
  require_defined("singular_value_threshold", {&a, &tau});
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
