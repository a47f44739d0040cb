#include "cuda/attention.cuh"

#include <cmath>

#include "cuda/attention_head.cuh"
#include "cuda/attention_wide.cuh"
#include "engine/cpu/bf16_tiles.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"
#include "engine/ops/packed.h"

namespace pursuit {

struct Attention {
  static constexpr const char* name = "attention";
  AttentionOptions options = {};
  Tensor qkv = {};     // [B, N, P, H, D]
  Tensor stats = {};   // [B, H, N, 2], of the softmax, in the compute dtype
  Tensor result = {};  // where the gradient reads it

  AttendShape head_shape(const PackedShape& s) const {
    const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(double(s.d));
    return {s.n, s.d, scale, options.causal, options.gamma, options.zeta};
  }

  // The rows of part `which` (0 queries, 1 keys, 2 values; if P = 2, keys are also queries) of one head.
  template <class T> static T* part(T* x, const PackedShape& s, int64_t b, int64_t h, int which) {
    const int64_t at = which - (3 - s.parts) * (which > 0);
    return x + ((b * s.n * s.parts + at) * s.heads + h) * s.d;
  }

  // Calls f.operator()<F>() with the type of the products' operands: bf16 if the CPU multiplies it, else the
  // compute type.
  template <class T, class Body> static void with_factors(const Body& f) {
    if constexpr (std::is_same_v<T, bf16>)
      if (bf16_tiles()) return f.template operator()<bf16>();
    f.template operator()<compute_t<T>>();
  }
  // The rows of a head as operands of type F, widened into `copy` if necessary.
  template <class F, class T>
  static Rows<const F> factor_rows(const T* x, int64_t ld, const PackedShape& s, compute_t<T>* copy) {
    if constexpr (std::is_same_v<F, T>)
      return {x, ld};
    else
      return read_rows(x, ld, s.n, s.d, copy);
  }

  template <class T> static void kernel(Cpu, const Attention& op, const PackedShape& s, T* out) {
    using R = compute_t<T>;
    const AttendShape a = op.head_shape(s);
    const int64_t ld = s.parts * s.width(), size = s.n * s.d;
    with_factors<T>([&]<class F> {
      // Blocks of causal attention have as many columns as their last row sees.
      // The library's products in f64 may differ by the number of rows.
      const bool by_rows = !a.causal && !std::is_same_v<T, double>;
      for_each_part_of_heads(s, by_rows, [&](int64_t b, int64_t h, int64_t begin, int64_t end) {
        const T* x = op.qkv.data<T>();
        const auto factor = [&](int which) {
          return factor_rows<F>(part(x, s, b, h, which), ld, s, scratch<R>(3 + which, size));
        };
        const Rows<const F> q = factor(0), k = s.parts == 2 ? q : factor(1), v = factor(2);
        T* o = out + b * s.n * s.width() + h * s.d;
        R* stats = op.stats.data<R>() + (b * s.heads + h) * s.n * 2;
        if constexpr (std::is_same_v<F, T>) {
          attend_forward(a, q, k, v, Rows<T>{o, s.width()}, stats, begin, end);
        } else {
          const Rows<R> to = target_rows(o, s.width(), s.d, scratch<R>(6, size));
          attend_forward(a, q, k, v, to, stats, begin, end);
          store_rows(o + begin * s.width(), s.width(), end - begin, s.d, Rows<R>{to.at(begin), to.ld});
        }
      });
    });
  }

  template <class T>
  static void gradient(Cpu, const Attention& op, const PackedShape& s, const T* go, T* gx) {
    using R = compute_t<T>;
    const AttendShape a = op.head_shape(s);
    const int64_t ld = s.parts * s.width(), size = s.n * s.d;
    with_factors<T>([&]<class F> {
      for_each_head(s, [&](int64_t b, int64_t h) {
        const T* x = op.qkv.data<T>();
        R* wide = scratch<R>(3, 7 * size);
        const auto slot = [&](int i) { return wide + i * size; };
        const auto factor = [&](int which) {
          return factor_rows<F>(part(x, s, b, h, which), ld, s, slot(which));
        };
        const Rows<const F> q = factor(0), k = s.parts == 2 ? q : factor(1), v = factor(2);
        const Rows<const F> g = factor_rows<F>(go + b * s.n * s.width() + h * s.d, s.width(), s, slot(3));
        T *tq = part(gx, s, b, h, 0), *tk = part(gx, s, b, h, 1), *tv = part(gx, s, b, h, 2);
        const Rows<R> gq = target_rows(tq, ld, s.d, slot(4)), gv = target_rows(tv, ld, s.d, slot(6));
        const Rows<R> gk = s.parts == 2 ? gq : target_rows(tk, ld, s.d, slot(5));
        attend_backward(a, q, k, v, op.stats.data<R>() + (b * s.heads + h) * s.n * 2, g, gq, gk, gv, R(0));
        store_rows(tq, ld, s.n, s.d, gq);
        if (s.parts == 3) store_rows(tk, ld, s.n, s.d, gk);
        store_rows(tv, ld, s.n, s.d, gv);
      });
    });
  }

#ifdef PURSUIT_GPU
  cuda::AttentionShape device_shape(const PackedShape& s) const {
    return {int(s.n),
            int(s.d),
            int(s.parts),
            int(s.heads),
            float(head_shape(s).scale),
            options.causal,
            float(options.gamma),
            float(options.zeta)};
  }

  // Calls f with the narrowest tiles that fit heads of width d, or with 0 if none do.
  template <class F> static void with_tiles(int64_t d, const F& f) {
    if (d <= 16)
      f(std::integral_constant<int, 16>{});
    else if (d <= 32)
      f(std::integral_constant<int, 32>{});
    else if (d <= 64)
      f(std::integral_constant<int, 64>{});
    else if (d <= 128)
      f(std::integral_constant<int, 128>{});
    else
      f(std::integral_constant<int, 0>{});
  }

  template <class T> static void kernel(Cuda, const Attention& op, const PackedShape& s, T* out) {
    if (op.qkv.numel() == 0) return;
    const cuda::AttentionShape a = op.device_shape(s);
    const T* x = op.qkv.data<T>();
    auto* stats = reinterpret_cast<float2*>(op.stats.data<float>());
    with_tiles(s.d, [&](auto width) {
      if constexpr (width() > 0)
        cuda::attention_forward<T, width()>(x, out, stats, a, s.batch);
      else
        cuda::attention_wide_forward(x, out, stats, a, s.batch);
    });
  }
  template <class T>
  static void gradient(Cuda, const Attention& op, const PackedShape& s, const T* go, T* gx) {
    if (op.qkv.numel() == 0) return;
    const cuda::AttentionShape a = op.device_shape(s);
    const T* x = op.qkv.data<T>();
    const auto* stats = reinterpret_cast<const float2*>(op.stats.data<float>());
    with_tiles(s.d, [&](auto width) {
      if constexpr (width() > 0 && width() <= 64 && std::is_same_v<T, bf16>)
        if (op.result.defined() && cuda::head_shared<T, width()>(int(s.n)) <= cuda::shared_memory_limit())
          return cuda::attention_head_backward<T, width()>(x, op.result.data<T>(), go, stats, gx, a, s.batch);
      const Tensor memory = empty({s.batch, s.heads, s.n, 4}, DType::f32, op.qkv.device());
      auto* rows = reinterpret_cast<cuda::RowGradient*>(memory.data<float>());
      if constexpr (width() > 0)
        cuda::attention_backward<T, width()>(x, go, stats, rows, gx, a, s.batch);
      else
        cuda::attention_wide_backward(x, go, stats, rows, gx, a, s.batch);
    });
  }
#endif

  // Whether a GPU may make the whole gradient of a head in one kernel, which reads the result.
  bool keeps_result([[maybe_unused]] const PackedShape& s) const {
    bool keeps = false;
#ifdef PURSUIT_GPU
    const bool clips = options.gamma != 0 || options.zeta != 1;
    if (qkv.device().is_cuda() && qkv.dtype() == DType::bf16)
      with_tiles(s.d, [&](auto width) {
        if constexpr (width() > 0) keeps = cuda::fits_head_kernel<bf16, width()>(s.n, s.parts, clips);
      });
#endif
    return keeps;
  }

  Tensor forward(const Tensor& x) {
    qkv = x.contiguous();
    const PackedShape s(qkv);
    stats = empty({s.batch, s.heads, s.n, 2}, compute_type(x.dtype()), x.device());
    Tensor out = empty({s.batch, s.n, s.width()}, x.dtype(), x.device());
    dispatch(x, name,
             [&]<class Dev, class T>(Dev dev, Type<T>) { launch<Attention>(dev, *this, s, out.data<T>()); });
    if (keeps_result(s)) result = out;
    return out;
  }
  Grads backward(const Tensor& gy, Needs) {
    const PackedShape s(qkv);
    const Tensor go = gy.contiguous();
    Tensor gx = empty_like(qkv);
    dispatch(qkv, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<Attention>(dev, *this, s, static_cast<const T*>(go.data<T>()), gx.data<T>());
    });
    return {gx};
  }

  Tensor reference(const Tensor& x) const {
    const PackedShape s(x);
    const auto head = [&](int64_t at) { return x.select(2, at).permute({0, 2, 1, 3}); };
    const Tensor q = head(0), k = head(s.parts - 2), v = head(s.parts - 1);
    Tensor scores = matmul(q, k.transpose(-1, -2)) * head_shape(s).scale;
    if (options.causal) scores = scores + log(lower_triangle(s.n, x.dtype(), x.device()));  // log 0 = -inf
    Tensor p = softmax(scores);
    if (options.gamma != 0 || options.zeta != 1)
      p = clamp(affine(p, options.zeta - options.gamma, options.gamma), 0, 1);
    return matmul(p, v).permute({0, 2, 1, 3}).reshape({s.batch, s.n, s.width()});
  }

  static std::vector<Sample<Attention>> samples() {
    return {{{}, {{{2, 7, 3, 2, 4}, -2, 2}}},
            {{}, {{{1, 33, 2, 3, 8}, -2, 2}}},
            {{AttentionOptions{.causal = true}}, {{{2, 19, 3, 1, 5}, -2, 2}}},
            {{AttentionOptions{.scale = 0.7, .causal = true}}, {{{1, 9, 2, 2, 4}, -2, 2}}},
            {{AttentionOptions{.gamma = -0.03, .zeta = 1.03}}, {{{1, 18, 3, 2, 4}, -3, 3}}},
            {{}, {{{1, 1, 3, 1, 1}}}},
            {{}, {{{0, 5, 3, 2, 4}}}},
            // For the GPU's tiles: every width, more than one round of strips, streamed panels.
            {{AttentionOptions{.causal = true}}, {{{1, 68, 2, 1, 16}}}},
            {{AttentionOptions{.scale = -0.4}}, {{{1, 40, 3, 2, 24}}}},
            {{}, {{{1, 66, 2, 1, 64}, -0.7, 0.7}}},
            {{}, {{{1, 150, 3, 1, 64}, -0.7, 0.7}}},
            {{AttentionOptions{.causal = true, .gamma = -0.03, .zeta = 1.03}}, {{{1, 50, 3, 1, 100}}}},
            {{AttentionOptions{.gamma = -0.03, .zeta = 1.03}}, {{{1, 3, 3, 2, 130}}}},
            {{AttentionOptions{.causal = true}}, {{{1, 4, 2, 1, 129}, -0.5, 0.5}}},
            // For the CPU's blocks of rows: several, with an uneven last one.
            {{AttentionOptions{.causal = true}}, {{{1, 70, 3, 1, 5}, -2, 2}}},
            {{AttentionOptions{.causal = true, .gamma = -0.03, .zeta = 1.03}}, {{{1, 131, 2, 1, 4}, -3, 3}}},
            {{}, {{{1, 290, 3, 1, 2}, -2, 2}}}};
  }
};
PURSUIT_OPERATOR(Attention)

Tensor attention(const Tensor& qkv, const AttentionOptions& options) {
  if (qkv.ndim() != 5 || qkv.size(2) < 2 || qkv.size(2) > 3)
    fail("attention",
         "got " + qkv.str() + ", need [batch, tokens, 3 (q, k, v) or 2 (k, v), heads, head_dim]");
  if (options.gamma > 0 || options.zeta < 1)
    fail("attention", "the clipped softmax needs gamma <= 0 and zeta >= 1");
  return apply(Attention{options}, qkv);
}

}  // namespace pursuit
