#include <cmath>

#include "cuda/rpc_attention_backward.cuh"
#include "cuda/rpc_attention_forward.cuh"
#include "engine/operator/operator.h"
#include "engine/ops.h"
#include "engine/ops/packed.h"

namespace pursuit {

// Principal attention pursuit with the scaled dual U = Y / mu, so that mu affects only the threshold tau. Per
// head:
//   X = K - L + U,  S = soft_threshold(X, tau),  Z = K - S -/+ U,  L' = softmax(scale Z Z^T) V,
//   U' = U + K - L' - S,
// or, with separate queries, L' = softmax(scale Q Z^T) V.
struct RpcAttention {
  static constexpr const char* name = "rpc_attention";
  RpcOptions options = {};
  Tensor kv = {};            // [B, N, 2, H, D], with queries [B, N, 3, H, D]
  Tensor z = {};             // [n, B, H, N, D], on the CPU in the compute dtype
  Tensor region = {};        // u8 [n, B, H, N, D], on the GPU packed: X inside, above or below the threshold
  Tensor stats = {};         // [n, B, H, N, 2], of the softmax
  Tensor l1 = {}, tau = {};  // [B, H, taus()]: ||K||_1 and the threshold, per head or per row
  Tensor l = {}, out = {};   // GPU: L of all iterations but the last [n - 1, B, H, N, D], and the result
  bool constant_mu = false;
  Tensor leaf = {}, composed = {};  // instead of the others if the GPU has no kernel

  AttendShape head_shape(const PackedShape& s) const {
    return {s.n, s.d, options.scale != 0 ? options.scale : 1 / std::sqrt(double(s.d)), options.causal};
  }
  // Parts are k, v or q, k, v.
  static bool has_queries(const PackedShape& s) { return s.parts == 3; }
  static int64_t keys_at(const PackedShape& s, int64_t b, int64_t h) {
    return ((b * s.n * s.parts + s.parts - 2) * s.heads + h) * s.d;
  }
  // Whether every row has its own threshold, and the number of thresholds per head.
  bool by_row() const { return options.mu_scope == RpcOptions::MuScope::prefix && !constant_mu; }
  int64_t taus(const PackedShape& s) const { return by_row() ? s.n : 1; }
  // mu = mu_times_l1 / ||K||_1 over this many tokens (Definition 1, with the model's or the head's width).
  double mu_times_l1(const PackedShape& s, int64_t tokens) const {
    const int64_t width = options.mu_width == RpcOptions::MuWidth::model ? s.width() : s.d;
    return double(tokens * width) / 4;
  }
  // Calls body(first row, rows, index of their tau).
  template <class F> void for_each_tau(const PackedShape& s, const F& body) const {
    const int64_t count = taus(s);
    for (int64_t i = 0; i < count; ++i) body(s.n * i / count, s.n * (i + 1) / count - s.n * i / count, i);
  }
  double threshold(double mu) const {
    return options.threshold == RpcOptions::Threshold::product ? options.lambda * mu : options.lambda / mu;
  }
  template <class R> RpcStep<R> step(R threshold, int t) const {
    return {threshold, options.shrink_every_iteration || t + 1 == options.iterations,
            options.dual_sign == RpcOptions::DualSign::plus};
  }

  template <class T>
  static void kernel(Cpu, const RpcAttention& op, const PackedShape& s, const compute_t<T>* mu, T* out) {
    using R = compute_t<T>;
    const AttendShape a = op.head_shape(s);
    const int64_t ld = s.parts * s.width(), size = s.n * s.d, heads = s.batch * s.heads;
    for_each_head(s, [&](int64_t b, int64_t h) {
      const int64_t head = b * s.heads + h;
      const T* x = op.kv.data<T>() + keys_at(s, b, h);
      R* wide = scratch<R>(3, 6 * size);
      R *l = wide, *u = wide + size;
      const Rows<const R> k = read_rows(x, ld, s.n, s.d, wide + 2 * size);
      const Rows<const R> v = read_rows(x + s.width(), ld, s.n, s.d, wide + 3 * size);
      const Rows<const R> q =
          has_queries(s) ? read_rows(x - s.width(), ld, s.n, s.d, wide + 5 * size) : Rows<const R>{};
      T* o = out + b * s.n * s.width() + h * s.d;
      const Rows<R> to = target_rows(o, s.width(), s.d, wide + 4 * size);

      R *l1 = op.l1.data<R>() + head * op.taus(s), *tau = op.tau.data<R>() + head * op.taus(s);
      double sum = 0;
      op.for_each_tau(s, [&](int64_t i, int64_t m, int64_t at) {
        sum += rows<R>().abs_sum_rows(k.at(i), m, s.d, k.ld);
        l1[at] = R(sum);
        tau[at] = R(op.threshold(mu ? double(mu[head]) : op.mu_times_l1(s, i + m) / sum));
      });
      const RightFactor<R> values = values_of(a, v, op.options.iterations);
      R* z_before = nullptr;
      for (int t = 0; t < op.options.iterations; ++t) {
        R* z = op.z.data<R>() + (t * heads + head) * size;
        uint8_t* region = op.region.data<uint8_t>() + (t * heads + head) * size;
        op.for_each_tau(s, [&](int64_t i, int64_t m, int64_t at) {
          const int64_t from = i * s.d;
          const RpcStep<R> step = op.step(tau[at], t);
          if (t == 0)
            rows<R>().rpc_first_rows(k.at(i), k.ld, u + from, z + from, region + from, m, s.d, step);
          else
            rows<R>().rpc_next_rows(k.at(i), k.ld, l + from, u + from, z_before + from, z + from,
                                    region + from, m, s.d, step);
        });
        const bool last = t + 1 == op.options.iterations;
        const Rows<const R> zr{z, s.d};
        attend_forward(a, q.p ? q : zr, zr, values, last ? to : Rows<R>{l, s.d},
                       op.stats.data<R>() + (t * heads + head) * s.n * 2, 0, s.n);
        z_before = z;
      }
      store_rows(o, s.width(), s.n, s.d, to);
    });
  }

  template <class T>
  static void gradient(Cpu, const RpcAttention& op, const PackedShape& s, const T* go, T* gx) {
    using R = compute_t<T>;
    const AttendShape a = op.head_shape(s);
    const int64_t ld = s.parts * s.width(), size = s.n * s.d, heads = s.batch * s.heads;
    for_each_head(s, [&](int64_t b, int64_t h) {
      const int64_t head = b * s.heads + h;
      const int64_t at = keys_at(s, b, h);
      const T* x = op.kv.data<T>() + at;
      R* wide = scratch<R>(3, (has_queries(s) ? 10 : 8) * size);
      const auto slot = [&](int i) { return wide + i * size; };
      const Rows<const R> k = read_rows(x, ld, s.n, s.d, slot(0));
      const Rows<const R> v = read_rows(x + s.width(), ld, s.n, s.d, slot(1));
      Rows<const R> g = read_rows(go + b * s.n * s.width() + h * s.d, s.width(), s.n, s.d, slot(2));
      const Rows<R> gk = target_rows(gx + at, ld, s.d, slot(3));
      const Rows<R> gv = target_rows(gx + at + s.width(), ld, s.d, slot(4));
      const Rows<R> gz{slot(5), s.d};
      Rows<const R> q{};
      Rows<R> gq = gz;
      if (has_queries(s)) {
        q = read_rows(x - s.width(), ld, s.n, s.d, slot(8));
        gq = target_rows(gx + at - s.width(), ld, s.d, slot(9));
      }
      R* gu = slot(6);
      std::fill_n(gu, size, R(0));
      for (int64_t i = 0; i < s.n; ++i) std::fill_n(gk.at(i), s.d, R(0));

      const R *l1 = op.l1.data<R>() + head * op.taus(s), *tau = op.tau.data<R>() + head * op.taus(s);
      std::vector<double> gtau(size_t(op.taus(s)));
      const RightFactor<R> values = transposed_values_of(a, v, op.options.iterations);
      for (int t = op.options.iterations - 1; t >= 0; --t) {
        const Rows<const R> z{op.z.data<R>() + (t * heads + head) * size, s.d};
        const uint8_t* region = op.region.data<uint8_t>() + (t * heads + head) * size;
        const bool last = t + 1 == op.options.iterations;
        attend_backward(a, q.p ? q : z, z, values, op.stats.data<R>() + (t * heads + head) * s.n * 2, g, gq,
                        gz, gv, last ? R(0) : R(1));
        R* next = slot(7);
        op.for_each_tau(s, [&](int64_t i, int64_t m, int64_t at) {
          const int64_t from = i * s.d;
          gtau[size_t(at)] +=
              rows<R>().rpc_grad_rows(gz.p + from, region + from, gu + from, t > 0 ? next + from : nullptr,
                                      gk.at(i), gk.ld, m, s.d, op.step(tau[at], t));
        });
        g = {next, s.d};
      }
      if (!op.constant_mu && !op.options.detach_mu) {
        // dtau/dK = -/+ tau sign(K) / ||K||_1, as tau is lambda mu or lambda / mu. A key contributes to the
        // taus of its own and all later rows: these are summed from the last row on.
        const double sign = op.options.threshold == RpcOptions::Threshold::product ? -1 : 1;
        double sum = 0;
        for (int64_t at = op.taus(s) - 1; at >= 0; --at) {
          if (l1[at] > 0) sum += sign * gtau[size_t(at)] * double(tau[at]) / double(l1[at]);
          gtau[size_t(at)] = sum;
        }
        op.for_each_tau(s, [&](int64_t i, int64_t m, int64_t at) {
          rows<R>().rpc_tau_grad_rows(k.at(i), k.ld, R(gtau[size_t(at)]), gk.at(i), gk.ld, m, s.d);
        });
      }
      if (q.p) store_rows(gx + at - s.width(), ld, s.n, s.d, gq);
      store_rows(gx + at, ld, s.n, s.d, gk);
      store_rows(gx + at + s.width(), ld, s.n, s.d, gv);
    });
  }

  Shape region_shape(const PackedShape& s, [[maybe_unused]] Device device) const {
#ifdef PURSUIT_GPU
    if (device.is_cuda())
      return {options.iterations,
              s.batch,
              s.heads,
              cuda_shape(s).tiles(),
              cuda::region_words(cuda::head_dim_tile(s.d)),
              32 * 4};
#endif
    return {options.iterations, s.batch, s.heads, s.n, s.d};
  }

  // The GPU kernels rely on symmetric scores and have a maximum head dim.
  bool has_kernel([[maybe_unused]] const PackedShape& s) const {
#ifdef PURSUIT_GPU
    return !has_queries(s) && s.d <= cuda::most_head_dim;
#else
    return false;
#endif
  }

#ifdef PURSUIT_GPU
  cuda::RpcShape cuda_shape(const PackedShape& s) const {
    return {s.batch,
            int(s.heads),
            int(s.n),
            int(s.d),
            options.iterations,
            float(head_shape(s).scale),
            float(options.lambda),
            float(mu_times_l1(s, by_row() ? 1 : s.n)),
            by_row(),
            options.causal,
            options.threshold == RpcOptions::Threshold::quotient,
            options.dual_sign == RpcOptions::DualSign::plus,
            options.shrink_every_iteration,
            !constant_mu && !options.detach_mu};
  }

  template <class T>
  static void kernel(Cuda, const RpcAttention& op, const PackedShape& s, const float* mu, T* out) {
    if (op.kv.numel() == 0) return;
    const cuda::RpcShape shape = op.cuda_shape(s);
    cuda::for_head_dim(s.d, [&]<int D>() {
      const Tensor w = empty({cuda::rpc_forward_scratch<T, D>(shape)}, DType::f32, op.kv.device());
      cuda::rpc_forward<T, D>({shape, op.kv.data<T>(), mu, op.z.data<T>(), op.l.data<T>(),
                               static_cast<uint32_t*>(op.region.raw()), op.stats.data<float>(),
                               op.l1.data<float>(), op.tau.data<float>(), out},
                              w.data<float>());
    });
  }
  template <class T>
  static void gradient(Cuda, const RpcAttention& op, const PackedShape& s, const T* go, T* gx) {
    if (op.kv.numel() == 0) return;
    const cuda::RpcShape shape = op.cuda_shape(s);
    cuda::for_head_dim(s.d, [&]<int D>() {
      const Tensor w = zeros({cuda::rpc_backward_zeros<T, D>(shape)}, DType::f32, op.kv.device());
      const Tensor rows = empty({cuda::rpc_backward_rows<T, D>(shape)}, op.kv.dtype(), op.kv.device());
      cuda::rpc_backward<T, D>({shape, op.kv.data<T>(), op.z.data<T>(), op.l.data<T>(), op.out.data<T>(),
                                static_cast<const uint32_t*>(op.region.raw()), op.stats.data<float>(),
                                op.l1.data<float>(), op.tau.data<float>(), go, gx},
                               w.data<float>(), rows.data<T>());
    });
  }
#endif

  Tensor forward(const Tensor& x, const Tensor& mu) {
    kv = x.contiguous();
    constant_mu = mu.defined();
    const PackedShape s(kv);
    const int64_t n = options.iterations;
    const DType wide = compute_type(x.dtype());
    const bool on_gpu = x.device().is_cuda();
    const Tensor given = constant_mu ? mu.to(wide).contiguous() : Tensor();
    if (on_gpu && !has_kernel(s)) return compose(given);
    z = empty({n, s.batch, s.heads, s.n, s.d}, on_gpu ? x.dtype() : wide, x.device());
    region = empty(region_shape(s, x.device()), DType::u8, x.device());
    stats = empty({n, s.batch, s.heads, s.n, 2}, wide, x.device());
    l1 = empty({s.batch, s.heads, taus(s)}, wide, x.device());
    tau = empty_like(l1);
    Tensor y = empty({s.batch, s.n, s.width()}, x.dtype(), x.device());
    if (on_gpu) {
      l = empty({n - 1, s.batch, s.heads, s.n, s.d}, x.dtype(), x.device());
      out = y;
    }
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      const compute_t<T>* fixed = constant_mu ? given.data<compute_t<T>>() : nullptr;
      launch<RpcAttention>(dev, *this, s, fixed, y.data<T>());
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    if (composed.defined()) {
      composed.backward(gy.to(DType::f32));
      return {leaf.grad().to(kv.dtype()), Tensor()};
    }
    const PackedShape s(kv);
    const Tensor go = gy.contiguous();
    Tensor gx = empty_like(kv);
    dispatch(kv, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<RpcAttention>(dev, *this, s, static_cast<const T*>(go.data<T>()), gx.data<T>());
    });
    return {gx, Tensor()};
  }

  // Forward and backward composed of operators, in f32.
  Tensor compose(const Tensor& mu) {
    leaf = kv.to(DType::f32);
    if (grad_enabled()) leaf.requires_grad();
    composed = reference(leaf, mu);
    return composed.detach().to(kv.dtype());
  }

  Tensor reference(const Tensor& x, const Tensor& given) const { return attend(last_keys(x, given), x); }
  // softmax(scale Q Z^T) V for z [B, H, N, D] and x's values and queries (default Q = Z), [B, N, H * D].
  Tensor attend(const Tensor& z, const Tensor& x) const {
    const PackedShape s(x);
    std::vector<Tensor> parts = {z.permute({0, 2, 1, 3}), x.select(2, s.parts - 1)};
    if (has_queries(s)) parts.insert(parts.begin(), x.select(2, 0));
    return attention(stack(parts, 2), {.scale = head_shape(s).scale, .causal = options.causal});
  }
  // Z of the last iteration, [B, H, N, D].
  Tensor last_keys(const Tensor& x, const Tensor& given) const {
    const PackedShape s(x);
    const Tensor k = x.select(2, s.parts - 2).permute({0, 2, 1, 3});
    const Tensor keys = options.detach_mu ? k.detach() : k;
    Tensor mu;
    if (given.defined())
      mu = given.to(x.dtype()).reshape({s.batch, s.heads, 1, 1});
    else if (options.mu_scope == RpcOptions::MuScope::window)
      mu = full({1}, mu_times_l1(s, s.n), x.dtype(), x.device()) / sum(abs(keys), {2, 3}, true);
    else
      mu = prefix_mu(s, keys);
    const Tensor lambda = full({1}, options.lambda, x.dtype(), x.device());
    const Tensor threshold = options.threshold == RpcOptions::Threshold::product ? lambda * mu : lambda / mu;
    Tensor l = zeros(k.shape(), x.dtype(), x.device()), u = l;
    for (int t = 0;; ++t) {
      const Tensor xt = k - l + u;
      const bool shrinks = options.shrink_every_iteration || t + 1 == options.iterations;
      const Tensor st = shrinks ? soft_threshold(xt, threshold) : xt;
      const Tensor zt = options.dual_sign == RpcOptions::DualSign::plus ? k - st + u : k - st - u;
      if (t + 1 == options.iterations) return zt;
      l = attend(zt, x).reshape({s.batch, s.n, s.heads, s.d}).permute({0, 2, 1, 3});
      u = u + k - l - st;
    }
  }

  // mu [B, H, N, 1] of every prefix, as sums by a triangular matrix.
  Tensor prefix_mu(const PackedShape& s, const Tensor& keys) const {
    const Tensor lower = lower_triangle(s.n, keys.dtype(), keys.device());
    const Tensor width = sum(lower, {1}, true) * mu_times_l1(s, 1);
    return width / matmul(lower, sum(abs(keys), {3}, true));
  }

  static std::vector<Sample<RpcAttention>> samples() {
    using O = RpcOptions;
    const auto kv = [](int64_t b, int64_t n, int64_t h, int64_t d) { return Input{{b, n, 2, h, d}, -3, 3}; };
    const auto qkv = [](int64_t b, int64_t n, int64_t h, int64_t d) { return Input{{b, n, 3, h, d}, -3, 3}; };
    // Each iteration multiplies rounding errors by about 3 to 5.
    return {
        {{O{.iterations = 1}}, {kv(2, 7, 2, 4), left_out()}, 4},
        {{O{.iterations = 2, .lambda = 2}}, {kv(1, 33, 3, 8), left_out()}, 16},
        {{O{.iterations = 4, .lambda = 3}}, {kv(2, 19, 2, 5), left_out()}, 64},
        {{O{.iterations = 3, .lambda = 2, .causal = true}}, {kv(1, 12, 2, 4), left_out()}, 32},
        {{O{.iterations = 2, .lambda = 1}}, {kv(1, 9, 2, 4), constant({{1, 2}, 0.3, 0.9})}, 16},
        {{O{.iterations = 3,
            .lambda = 0.25,
            .threshold = O::Threshold::quotient,
            .mu_width = O::MuWidth::head,
            .dual_sign = O::DualSign::plus,
            .detach_mu = true,
            .shrink_every_iteration = false}},
         {kv(1, 11, 2, 4), left_out()},
         32},
        // More heads than the GPU's blocks.
        {{O{.iterations = 2, .lambda = 2}}, {kv(3, 17, 3, 16), left_out()}, 16},
        // The widths for which the GPU has tiles, more rows than a warp's strip, and scores that keep softmax
        // soft.
        {{O{.iterations = 2, .causal = true}}, {kv(2, 35, 2, 16), left_out()}, 16},
        {{O{.iterations = 2, .lambda = 0.5, .scale = 0.04, .threshold = O::Threshold::quotient}},
         {kv(1, 33, 1, 32), left_out()},
         16},
        {{O{.iterations = 2, .scale = 0.05, .shrink_every_iteration = false}},
         {kv(1, 19, 1, 64), left_out()},
         16},
        {{O{.iterations = 2, .lambda = 1.5, .scale = 0.03, .causal = true}},
         {kv(1, 20, 2, 65), left_out()},
         16},
        {{O{.iterations = 3, .lambda = 2, .causal = true, .mu_scope = O::MuScope::prefix}},
         {kv(2, 13, 2, 4), left_out()},
         32},
        {{O{.iterations = 2,
            .lambda = 0.25,
            .causal = true,
            .threshold = O::Threshold::quotient,
            .mu_scope = O::MuScope::prefix,
            .detach_mu = true}},
         {kv(1, 35, 2, 16), left_out()},
         16},
        {{O{.iterations = 2, .lambda = 1.5, .scale = 0.03, .causal = true, .mu_scope = O::MuScope::prefix}},
         {kv(1, 70, 1, 65), left_out()},
         16},
        {{O{.iterations = 2}}, {kv(0, 5, 2, 4), left_out()}},
        // With separate queries.
        {{O{.iterations = 1}}, {qkv(2, 7, 2, 4), left_out()}, 4},
        {{O{.iterations = 3, .lambda = 2}}, {qkv(2, 35, 2, 16), left_out()}, 32},
        {{O{.iterations = 2, .lambda = 2, .causal = true, .mu_scope = O::MuScope::prefix}},
         {qkv(1, 70, 2, 5), left_out()},
         16},
        {{O{.iterations = 3, .lambda = 0.25, .threshold = O::Threshold::quotient, .detach_mu = true}},
         {qkv(1, 11, 2, 4), left_out()},
         32}};
  }
};
PURSUIT_OPERATOR(RpcAttention)

namespace {

void require_keys(const char* name, const Tensor& kv, const RpcOptions& options) {
  if (kv.ndim() != 5 || (kv.size(2) != 2 && kv.size(2) != 3))
    fail(name, "got " + kv.str() + ", need [batch, tokens, 2 (k, v) or 3 (q, k, v), heads, head_dim]");
  if (options.iterations < 1)
    fail(name, "iterations is " + std::to_string(options.iterations) + ", need at least 1");
  // exp(scale k_i k_j) with scale < 0 is no kernel of a PCA: it is not positive semidefinite.
  if (!(options.scale >= 0)) fail(name, "scale is " + std::to_string(options.scale) + ", need at least 0");
  if (!(options.lambda > 0)) fail(name, "lambda is " + std::to_string(options.lambda) + ", need more than 0");
}

}  // namespace

Tensor rpc_attention(const Tensor& kv, const RpcOptions& options, const Tensor& mu) {
  require_keys("rpc_attention", kv, options);
  if (mu.defined() && (mu.shape() != Shape{kv.size(0), kv.size(3)} || mu.device() != kv.device()))
    fail("rpc_attention", "mu is " + mu.str() + ", need [batch, heads] beside a " + kv.str());
  return apply(RpcAttention{options}, kv, mu.detach());
}

Tensor rpc_last_keys(const Tensor& kv, const RpcOptions& options) {
  require_defined("rpc_last_keys", {&kv});
  require_keys("rpc_last_keys", kv, options);
  RpcAttention op{options};
  if (grad_enabled() && kv.needs_grad()) return op.last_keys(kv.to(compute_type(kv.dtype())), Tensor());
  NoGrad off;
  if (kv.device().is_cuda() && !op.has_kernel(PackedShape(kv)))
    return rpc_last_keys(kv.to(cpu), options).to(kv.device());
  op.forward(kv.detach(), Tensor());
  return op.z.select(0, options.iterations - 1);
}

}  // namespace pursuit
