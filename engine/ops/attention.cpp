#include "cuda/attention.cuh"

#include <cmath>

#include "cuda/attention_head.cuh"
#include "cuda/attention_rows.cuh"
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
  Tensor result = {};  // where a GPU's gradient reads it

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
          attend_forward(a, q, k, values_of(a, v), Rows<T>{o, s.width()}, stats, begin, end);
        } else {
          const Rows<R> to = target_rows(o, s.width(), s.d, scratch<R>(6, size));
          attend_forward(a, q, k, values_of(a, v), to, stats, begin, end);
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
        attend_backward(a, q, k, transposed_values_of(a, v), op.stats.data<R>() + (b * s.heads + h) * s.n * 2,
                        g, gq, gk, gv, R(0));
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
        cuda::attention_rows_forward<T>({x, x, nullptr, a, a}, out, stats, s.batch);
    });
  }
  template <class T>
  static void gradient(Cuda, const Attention& op, const PackedShape& s, const T* go, T* gx) {
    if (op.qkv.numel() == 0) return;
    const cuda::AttentionShape a = op.device_shape(s);
    const T* x = op.qkv.data<T>();
    const auto* stats = reinterpret_cast<const float2*>(op.stats.data<float>());
    with_tiles(s.d, [&](auto width) {
      const T* result = op.result.defined() ? op.result.data<T>() : nullptr;
      if constexpr (width() > 0 && width() <= 64 && std::is_same_v<T, bf16>)
        if (cuda::fits_head_kernel<T, width()>(s.n, s.parts, op.clips()))
          return cuda::attention_head_backward<T, width()>(x, result, go, stats, gx, a, s.batch);
      const Tensor memory = empty({s.batch, s.heads, s.n, 4}, DType::f32, op.qkv.device());
      auto* rows = reinterpret_cast<cuda::RowGradient*>(memory.data<float>());
      if constexpr (width() > 0)
        cuda::attention_backward<T, width()>(x, result, go, stats, rows, gx, a, s.batch);
      else
        cuda::attention_rows_backward<T>({x, x, nullptr, a, a}, result, go, stats, rows, gx, gx, s.batch);
    });
  }
#endif

  bool clips() const { return options.gamma != 0 || options.zeta != 1; }

  Tensor forward(const Tensor& x) {
    qkv = x.contiguous();
    const PackedShape s(qkv);
    stats = empty({s.batch, s.heads, s.n, 2}, compute_type(x.dtype()), x.device());
    Tensor out = empty({s.batch, s.n, s.width()}, x.dtype(), x.device());
    dispatch(x, name,
             [&]<class Dev, class T>(Dev dev, Type<T>) { launch<Attention>(dev, *this, s, out.data<T>()); });
    // Its rows times those of the gradient are the sums that the scores' gradient subtracts, unless clipped.
    // Where keys are also queries, its rounding to bf16 would count twice.
    if (x.device().is_cuda() && !clips() && s.parts == 3) result = out;
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
    return merged(matmul(probabilities(x), head(x, s.parts - 1)));
  }
  // [B, H, N, N]
  Tensor probabilities(const Tensor& x) const {
    const PackedShape s(x);
    Tensor scores = matmul(head(x, 0), head(x, s.parts - 2).transpose(-1, -2)) * head_shape(s).scale;
    if (options.causal) scores = scores + log(lower_triangle(s.n, x.dtype(), x.device()));  // log 0 = -inf
    const Tensor p = softmax(scores);
    if (!clips()) return p;
    return clamp(affine(p, options.zeta - options.gamma, options.gamma), 0, 1);
  }
  // A part as [B, H, N, D]; that as [B, N, H * D].
  static Tensor head(const Tensor& x, int64_t at) { return x.select(2, at).permute({0, 2, 1, 3}); }
  static Tensor merged(const Tensor& x) {
    return x.permute({0, 2, 1, 3}).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
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

// P^T x is the gradient of attention by its values for the upstream gradient x, and on a GPU it is computed
// as such.
struct AttentionTransposed {
  static constexpr const char* name = "attention_transposed";
  AttentionOptions options = {};
  Tensor qkx = {};  // [B, N, 3, H, D]

  template <class T> static void kernel(Cpu, const AttentionTransposed& op, const PackedShape& s, T* out) {
    using R = compute_t<T>;
    for_each_head(s, [&](int64_t b, int64_t h) {
      T* o = out + b * s.n * s.width() + h * s.d;
      const Rows<R> to = target_rows(o, s.width(), s.d, scratch<R>(6, s.n * s.d));
      attend_transposed(Attention{op.options}.head_shape(s), op.read<T>(s, b, h, 0), op.read<T>(s, b, h, 1),
                        op.read<T>(s, b, h, 2), to);
      store_rows(o, s.width(), s.n, s.d, to);
    });
  }
  // For go = G: dx = P G; the scores' gradient is that of attention to values G for upstream x.
  template <class T>
  static void gradient(Cpu, const AttentionTransposed& op, const PackedShape& s, const T* go, T* gx) {
    using R = compute_t<T>;
    const AttendShape a = Attention{op.options}.head_shape(s);
    const int64_t ld = s.parts * s.width(), size = s.n * s.d;
    for_each_head(s, [&](int64_t b, int64_t h) {
      const Rows<const R> q = op.read<T>(s, b, h, 0), k = op.read<T>(s, b, h, 1), x = op.read<T>(s, b, h, 2);
      R* wide = scratch<R>(6, 4 * size + 2 * s.n);
      const auto slot = [&](int i) { return wide + i * size; };
      const Rows<const R> g = read_rows(go + b * s.n * s.width() + h * s.d, s.width(), s.n, s.d, slot(0));
      T* to[3];
      Rows<R> rows[3];
      for (int i = 0; i < 3; ++i) {
        to[i] = Attention::part(gx, s, b, h, i);
        rows[i] = target_rows(to[i], ld, s.d, slot(1 + i));
      }
      R* stats = slot(4);
      attend_forward(a, q, k, values_of(a, g), rows[2], stats, 0, s.n);
      attend_backward(a, q, k, transposed_values_of(a, g), static_cast<const R*>(stats), x, rows[0], rows[1],
                      Rows<R>{}, R(0));
      for (int i = 0; i < 3; ++i) store_rows(to[i], ld, s.n, s.d, rows[i]);
    });
  }
  // A part's rows in the compute type.
  template <class T>
  Rows<const compute_t<T>> read(const PackedShape& s, int64_t b, int64_t h, int part) const {
    return read_rows(Attention::part(qkx.data<T>(), s, b, h, part), s.parts * s.width(), s.n, s.d,
                     scratch<compute_t<T>>(3 + part, copied<T>(s.n * s.d)));
  }

  Tensor forward(const Tensor& in) {
    qkx = in.contiguous();
    const PackedShape s(qkx);
    if (in.device().is_cuda()) {
      Attention values{options};
      values.forward(qkx);
      return joined(values.backward(joined(qkx), {})[0]);
    }
    Tensor out = empty({s.batch, s.n, s.width()}, in.dtype(), in.device());
    dispatch(in, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<AttentionTransposed>(dev, *this, s, out.data<T>());
    });
    return out;
  }
  Grads backward(const Tensor& gy, Needs) {
    const PackedShape s(qkx);
    if (qkx.device().is_cuda()) {
      const Shape as_part{s.batch, s.n, 1, s.heads, s.d};
      Attention values{options};
      const Tensor gx = values.forward(concat({qkx.slice(2, 0, 2), gy.reshape(as_part)}, 2));
      const Tensor gqk = values.backward(joined(qkx), {})[0].slice(2, 0, 2);
      return {concat({gqk, gx.reshape(as_part)}, 2)};
    }
    const Tensor go = gy.contiguous();
    Tensor gx = empty_like(qkx);
    dispatch(qkx, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<AttentionTransposed>(dev, *this, s, static_cast<const T*>(go.data<T>()), gx.data<T>());
    });
    return {gx};
  }
  // x of [q, k, x] as [B, N, H * D].
  static Tensor joined(const Tensor& packed) {
    return packed.select(2, 2).reshape({packed.size(0), packed.size(1), packed.size(3) * packed.size(4)});
  }

  Tensor reference(const Tensor& in) const {
    const Tensor p = Attention{options}.probabilities(in);
    return Attention::merged(matmul(p.transpose(-1, -2), Attention::head(in, 2)));
  }

  static std::vector<Sample<AttentionTransposed>> samples() {
    return {{{}, {{{2, 7, 3, 2, 4}, -2, 2}}},
            {{AttentionOptions{.causal = true}}, {{{2, 19, 3, 1, 5}, -2, 2}}},
            {{AttentionOptions{.scale = -0.4}}, {{{1, 40, 3, 2, 24}}}},
            {{}, {{{1, 1, 3, 1, 1}}}},
            {{}, {{{0, 5, 3, 2, 4}}}},
            // More than a block of rows on the CPU; every width of the GPU's tiles.
            {{AttentionOptions{.causal = true}}, {{{1, 131, 3, 1, 4}, -2, 2}}},
            {{}, {{{1, 290, 3, 1, 2}, -2, 2}}},
            {{}, {{{1, 66, 3, 2, 33}, -0.7, 0.7}}},
            {{AttentionOptions{.scale = 0.1, .causal = true}}, {{{1, 70, 3, 1, 65}}}},
            {{AttentionOptions{.scale = 0.1}}, {{{1, 5, 3, 1, 130}}}}};
  }
};
PURSUIT_OPERATOR(AttentionTransposed)

Tensor attention(const Tensor& qkv, const AttentionOptions& options) {
  if (qkv.ndim() != 5 || qkv.size(2) < 2 || qkv.size(2) > 3)
    fail("attention",
         "got " + qkv.str() + ", need [batch, tokens, 3 (q, k, v) or 2 (k, v), heads, head_dim]");
  if (!(options.gamma <= 0 && options.zeta >= 1))
    fail("attention", "the clipped softmax needs gamma <= 0 and zeta >= 1");
  return apply(Attention{options}, qkv);
}

Tensor attention_transposed(const Tensor& qkx, const AttentionOptions& options) {
  if (qkx.ndim() != 5 || qkx.size(2) != 3)
    fail("attention_transposed", "got " + qkx.str() + ", need [batch, tokens, 3 (q, k, x), heads, head_dim]");
  if (options.gamma != 0 || options.zeta != 1) fail("attention_transposed", "there is no clipped form");
  return apply(AttentionTransposed{options}, qkx);
}

}  // namespace pursuit
