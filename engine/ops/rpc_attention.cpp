#include <cmath>

#include "cuda/rpc_attention_backward.cuh"
#include "cuda/rpc_attention_forward.cuh"
#include "engine/cpu/packed.h"
#include "engine/operator.h"
#include "engine/ops.h"

namespace pursuit {

// Principal attention pursuit with the scaled dual U = Y / mu, in which mu survives only in the threshold
// tau. Per head:
//   X = K - L + U,  S = soft_threshold(X, tau),  Z = K - S -/+ U,  L' = softmax(scale Z Z^T) V,  U' = U + K -
//   L' - S.
struct RpcAttention {
  static constexpr const char* name = "rpc_attention";
  RpcOptions options = {};
  Tensor kv = {};            // [B, N, 2, H, D]
  Tensor z = {};             // [n, B, H, N, D], on the CPU in the compute type
  Tensor region = {};        // u8 [n, B, H, N, D], on the GPU packed: X inside, above or below the threshold
  Tensor stats = {};         // [n, B, H, N, 2], of the softmax
  Tensor l1 = {}, tau = {};  // [B, H]: ||K||_1 and the threshold
  Tensor l = {}, out = {};   // GPU: L of all iterations but the last [n - 1, B, H, N, D], and the result
  bool constant_mu = false;

  AttendShape head_shape(const PackedShape& s) const {
    return {s.n, s.d, options.scale != 0 ? options.scale : 1 / std::sqrt(double(s.d)), options.causal};
  }
  // mu = mu_times_l1 / ||K||_1 (Definition 1, with the model's or the head's width).
  double mu_times_l1(const PackedShape& s) const {
    const int64_t width = options.mu_width == RpcOptions::MuWidth::model ? s.width() : s.d;
    return double(s.n * width) / 4;
  }
  double threshold(double mu) const {
    return options.threshold == RpcOptions::Threshold::product ? options.lambda * mu : options.lambda / mu;
  }
  template <class R>
  RpcStep<R> step(R threshold, int t) const {
    return {threshold, options.shrink_every_iteration || t + 1 == options.iterations,
            options.dual_sign == RpcOptions::DualSign::plus};
  }

  template <class T>
  static void kernel(Cpu, const RpcAttention& op, const PackedShape& s, const compute_t<T>* mu, T* out) {
    using R = compute_t<T>;
    const AttendShape a = op.head_shape(s);
    const int64_t ld = 2 * s.width(), size = s.n * s.d, heads = s.batch * s.heads;
    for_each_head(s, [&](int64_t b, int64_t h) {
      const int64_t head = b * s.heads + h;
      const T* x = op.kv.data<T>() + (b * s.n * 2 * s.heads + h) * s.d;
      R* wide = scratch<R>(3, 6 * size);
      R *l = wide, *u = wide + size;
      const Rows<const R> k = read_rows(x, ld, s.n, s.d, wide + 2 * size);
      const Rows<const R> v = read_rows(x + s.width(), ld, s.n, s.d, wide + 3 * size);
      T* o = out + b * s.n * s.width() + h * s.d;
      const Rows<R> to = target_rows(o, s.width(), s.d, wide + 4 * size);

      const double l1 = rows<R>().abs_sum_rows(k.p, s.n, s.d, k.ld);
      op.l1.data<R>()[head] = R(l1);
      const R tau = R(op.threshold(mu ? double(mu[head]) : op.mu_times_l1(s) / l1));
      op.tau.data<R>()[head] = tau;
      R* z_before = nullptr;
      for (int t = 0; t < op.options.iterations; ++t) {
        R* z = op.z.data<R>() + (t * heads + head) * size;
        uint8_t* region = op.region.data<uint8_t>() + (t * heads + head) * size;
        if (t == 0)
          rows<R>().rpc_first_rows(k.p, k.ld, u, z, region, s.n, s.d, op.step(tau, t));
        else
          rows<R>().rpc_next_rows(k.p, k.ld, l, u, z_before, z, region, s.n, s.d, op.step(tau, t));
        const bool last = t + 1 == op.options.iterations;
        const Rows<const R> zr{z, s.d};
        attend_forward(a, zr, zr, v, last ? to : Rows<R>{l, s.d},
                       op.stats.data<R>() + (t * heads + head) * s.n * 2);
        z_before = z;
      }
      store_rows(o, s.width(), s.n, s.d, to);
    });
  }

  template <class T>
  static void gradient(Cpu, const RpcAttention& op, const PackedShape& s, const T* go, T* gx) {
    using R = compute_t<T>;
    const AttendShape a = op.head_shape(s);
    const int64_t ld = 2 * s.width(), size = s.n * s.d, heads = s.batch * s.heads;
    for_each_head(s, [&](int64_t b, int64_t h) {
      const int64_t head = b * s.heads + h;
      const int64_t at = (b * s.n * 2 * s.heads + h) * s.d;
      const T* x = op.kv.data<T>() + at;
      R* wide = scratch<R>(3, 8 * size);
      const auto slot = [&](int i) { return wide + i * size; };
      const Rows<const R> k = read_rows(x, ld, s.n, s.d, slot(0));
      const Rows<const R> v = read_rows(x + s.width(), ld, s.n, s.d, slot(1));
      Rows<const R> g = read_rows(go + b * s.n * s.width() + h * s.d, s.width(), s.n, s.d, slot(2));
      const Rows<R> gk = target_rows(gx + at, ld, s.d, slot(3));
      const Rows<R> gv = target_rows(gx + at + s.width(), ld, s.d, slot(4));
      const Rows<R> gz{slot(5), s.d};
      R* gu = slot(6);
      std::fill_n(gu, size, R(0));
      for (int64_t i = 0; i < s.n; ++i) std::fill_n(gk.at(i), s.d, R(0));

      const R tau = op.tau.data<R>()[head];
      double gtau = 0;
      for (int t = op.options.iterations - 1; t >= 0; --t) {
        const Rows<const R> z{op.z.data<R>() + (t * heads + head) * size, s.d};
        const uint8_t* region = op.region.data<uint8_t>() + (t * heads + head) * size;
        const bool last = t + 1 == op.options.iterations;
        attend_backward(a, z, z, v, op.stats.data<R>() + (t * heads + head) * s.n * 2, g, gz, gz, gv,
                        last ? R(0) : R(1));
        R* next = slot(7);
        gtau += rows<R>().rpc_grad_rows(gz.p, region, gu, t > 0 ? next : nullptr, gk.p, gk.ld, s.n, s.d,
                                        op.step(tau, t));
        g = {next, s.d};
      }
      const double l1 = double(op.l1.data<R>()[head]);
      if (!op.constant_mu && !op.options.detach_mu && l1 > 0) {
        // dtau/dK = -/+ tau sign(K) / ||K||_1, as tau is lambda mu or lambda / mu.
        const double sign = op.options.threshold == RpcOptions::Threshold::product ? -1 : 1;
        rows<R>().rpc_tau_grad_rows(k.p, k.ld, R(sign * gtau * double(tau) / l1), gk.p, gk.ld, s.n, s.d);
      }
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

#ifdef PURSUIT_GPU
  cuda::RpcShape cuda_shape(const PackedShape& s) const {
    return {s.batch,
            int(s.heads),
            int(s.n),
            int(s.d),
            options.iterations,
            float(head_shape(s).scale),
            float(options.lambda),
            float(mu_times_l1(s)),
            options.causal,
            options.threshold == RpcOptions::Threshold::quotient,
            options.dual_sign == RpcOptions::DualSign::plus,
            options.shrink_every_iteration,
            !constant_mu && !options.detach_mu};
  }

  template <class T>
  static void kernel(Cuda, const RpcAttention& op, const PackedShape& s, const float* mu, T* out) {
    if (op.kv.numel() == 0) return;
    if (s.d > cuda::most_head_dim)
      fail(name, "the head dim is " + std::to_string(s.d) + ", kernels for the GPU end at " +
                     std::to_string(cuda::most_head_dim) + "; use the CPU");
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
    z = empty({n, s.batch, s.heads, s.n, s.d}, on_gpu ? x.dtype() : wide, x.device());
    region = empty(region_shape(s, x.device()), DType::u8, x.device());
    stats = empty({n, s.batch, s.heads, s.n, 2}, wide, x.device());
    l1 = empty({s.batch, s.heads}, wide, x.device());
    tau = empty({s.batch, s.heads}, wide, x.device());
    const Tensor given = constant_mu ? mu.to(wide).contiguous() : Tensor();
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
    const PackedShape s(kv);
    const Tensor go = gy.contiguous();
    Tensor gx = empty_like(kv);
    dispatch(kv, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<RpcAttention>(dev, *this, s, static_cast<const T*>(go.data<T>()), gx.data<T>());
    });
    return {gx, Tensor()};
  }

  Tensor reference(const Tensor& x, const Tensor& given) const {
    const PackedShape s(x);
    const Tensor k = x.select(2, 0).permute({0, 2, 1, 3}), v = x.select(2, 1).permute({0, 2, 1, 3});
    const Tensor keys = options.detach_mu ? k.detach() : k;
    const Tensor mu = given.defined()
                          ? given.to(x.dtype()).reshape({s.batch, s.heads, 1, 1})
                          : full({1}, mu_times_l1(s), x.dtype(), x.device()) / sum(abs(keys), {2, 3}, true);
    const Tensor lambda = full({1}, options.lambda, x.dtype(), x.device());
    const Tensor threshold = options.threshold == RpcOptions::Threshold::product ? lambda * mu : lambda / mu;
    Tensor l = zeros(k.shape(), x.dtype(), x.device()), u = l;
    for (int t = 0; t < options.iterations; ++t) {
      const Tensor xt = k - l + u;
      const bool shrinks = options.shrink_every_iteration || t + 1 == options.iterations;
      const Tensor st = shrinks ? soft_threshold(xt, threshold) : xt;
      const Tensor zt = options.dual_sign == RpcOptions::DualSign::plus ? k - st + u : k - st - u;
      const Tensor packed = stack({zt, v}, 0).permute({1, 3, 0, 2, 4});
      const Tensor mixed = attention(packed, {.scale = head_shape(s).scale, .causal = options.causal});
      l = mixed.reshape({s.batch, s.n, s.heads, s.d}).permute({0, 2, 1, 3});
      u = u + k - l - st;
    }
    return l.permute({0, 2, 1, 3}).reshape({s.batch, s.n, s.width()});
  }

  static std::vector<Sample<RpcAttention>> samples() {
    using O = RpcOptions;
    const auto kv = [](int64_t b, int64_t n, int64_t h, int64_t d) { return Input{{b, n, 2, h, d}, -3, 3}; };
    // Iterating multiplies a rounding error by about 3 to 5 each time.
    return {{{O{.iterations = 1}}, {kv(2, 7, 2, 4), left_out()}, 4},
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
            // The widths that the GPU has tiles for, more rows than a warp's strip; scores that leave softmax
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
            {{O{.iterations = 2}}, {kv(0, 5, 2, 4), left_out()}}};
  }
};
PURSUIT_OPERATOR(RpcAttention)

Tensor rpc_attention(const Tensor& kv, const RpcOptions& options, const Tensor& mu) {
  if (kv.ndim() != 5 || kv.size(2) != 2)
    fail("rpc_attention", "got " + kv.str() + ", need [batch, tokens, 2 (k, v), heads, head_dim]");
  if (options.iterations < 1)
    fail("rpc_attention", "iterations is " + std::to_string(options.iterations) + ", need at least 1");
  if (!(options.lambda > 0))
    fail("rpc_attention", "lambda is " + std::to_string(options.lambda) + ", need more than 0");
  if (mu.defined() && mu.shape() != Shape{kv.size(0), kv.size(3)})
    fail("rpc_attention", "mu is " + mu.str() + ", need [batch, heads] for a " + kv.str());
#ifdef PURSUIT_GPU
  if (kv.device().is_cuda() && kv.size(4) > cuda::most_head_dim)
    return RpcAttention{options}.reference(kv.to(DType::f32), mu.detach()).to(kv.dtype());
#endif
  return apply(RpcAttention{options}, kv, mu.detach());
}

Tensor rpc_last_keys(const Tensor& kv, const RpcOptions& options) {
  RpcAttention op{options};
  op.forward(kv.detach(), Tensor());
  return op.z.select(0, options.iterations - 1);
}

}  // namespace pursuit
