#include <cmath>

#include "cuda/attention_rows.cuh"
#include "engine/operator/operator.h"
#include "engine/ops.h"
#include "engine/ops/packed.h"

namespace pursuit {

struct CrossAttention {
  static constexpr const char* name = "cross_attention";
  double scale = 0;
  Tensor q = {};       // [B, M, H, D]
  Tensor kv = {};      // [B, N, 2, H, D]
  Tensor mask = {};    // [B, M, N] or undefined, in the compute type
  Tensor stats = {};   // [B, H, M, 2], of the softmax, in the compute type
  Tensor result = {};  // where a GPU's gradient reads it

  AttendShape head_shape() const {
    return {.n = kv.size(1),
            .d = q.size(3),
            .scale = scale != 0 ? scale : 1 / std::sqrt(double(q.size(3))),
            .causal = false,
            .queries = q.size(1)};
  }
  template <class R> Rows<const R> mask_of(int64_t b) const {
    if (!mask.defined()) return {};
    const int64_t n = mask.size(2);
    return {mask.data<R>() + b * mask.size(1) * n, n};
  }

  template <class T> static void kernel(Cpu, const CrossAttention& op, T* out) {
    using R = compute_t<T>;
    const AttendShape a = op.head_shape();
    const int64_t m = a.queries, n = a.n, d = a.d, width = op.q.size(2) * d;
    for_each_head(PackedShape(op.kv), [&](int64_t b, int64_t h) {
      const T *pq = op.q.data<T>() + b * m * width + h * d, *pk = op.kv.data<T>() + 2 * b * n * width + h * d;
      const Rows<const R> q = read_rows(pq, width, m, d, scratch<R>(3, copied<T>(m * d)));
      const Rows<const R> k = read_rows(pk, 2 * width, n, d, scratch<R>(4, copied<T>(n * d)));
      const Rows<const R> v = read_rows(pk + width, 2 * width, n, d, scratch<R>(5, copied<T>(n * d)));
      T* o = out + b * m * width + h * d;
      const Rows<R> to = target_rows(o, width, d, scratch<R>(6, copied<T>(m * d)));
      R* stats = op.stats.data<R>() + (b * op.q.size(2) + h) * m * 2;
      attend_forward(a, q, k, values_of(a, v), to, stats, 0, m, op.mask_of<R>(b));
      store_rows(o, width, m, d, to);
    });
  }
  template <class T> static void gradient(Cpu, const CrossAttention& op, const T* go, T* gq, T* gkv) {
    using R = compute_t<T>;
    const AttendShape a = op.head_shape();
    const int64_t m = a.queries, n = a.n, d = a.d, width = op.q.size(2) * d;
    for_each_head(PackedShape(op.kv), [&](int64_t b, int64_t h) {
      const int64_t at_q = b * m * width + h * d, at_k = 2 * b * n * width + h * d;
      const int64_t rows = std::max(m, n) * d;
      R* wide = scratch<R>(3, copied<T>(7 * rows));
      const auto slot = [&](int i) { return copied<T>(1) ? wide + i * rows : nullptr; };
      const T* pk = op.kv.data<T>() + at_k;
      const Rows<const R> q = read_rows(op.q.data<T>() + at_q, width, m, d, slot(0));
      const Rows<const R> k = read_rows(pk, 2 * width, n, d, slot(1));
      const Rows<const R> v = read_rows(pk + width, 2 * width, n, d, slot(2));
      const Rows<const R> g = read_rows(go + at_q, width, m, d, slot(3));
      T *tq = gq + at_q, *tk = gkv + at_k, *tv = tk + width;
      const Rows<R> to_q = target_rows(tq, width, d, slot(4)), to_k = target_rows(tk, 2 * width, d, slot(5)),
                    to_v = target_rows(tv, 2 * width, d, slot(6));
      const R* stats = op.stats.data<R>() + (b * op.q.size(2) + h) * m * 2;
      attend_backward(a, q, k, transposed_values_of(a, v), stats, g, to_q, to_k, to_v, R(0),
                      op.mask_of<R>(b));
      store_rows(tq, width, m, d, to_q);
      store_rows(tk, 2 * width, n, d, to_k);
      store_rows(tv, 2 * width, n, d, to_v);
    });
  }

#ifdef PURSUIT_GPU
  template <class T> cuda::RowAttention<T> device_rows() const {
    const AttendShape a = head_shape();
    const auto shape = [&](int64_t rows, int parts) {
      return cuda::AttentionShape{int(rows), int(a.d), parts, int(q.size(2)), float(a.scale), false, 0, 1};
    };
    return {q.data<T>(), kv.data<T>(), mask.defined() ? mask.data<float>() : nullptr, shape(a.n, 2),
            shape(a.queries, 1)};
  }

  template <class T> static void kernel(Cuda, const CrossAttention& op, T* out) {
    cuda::attention_rows_forward(op.device_rows<T>(), out, reinterpret_cast<float2*>(op.stats.data<float>()),
                                 op.q.size(0));
  }
  template <class T> static void gradient(Cuda, const CrossAttention& op, const T* go, T* gq, T* gkv) {
    const Tensor memory = empty({op.q.size(0), op.q.size(2), op.q.size(1), 4}, DType::f32, op.q.device());
    cuda::attention_rows_backward(
        op.device_rows<T>(), op.result.data<T>(), go, reinterpret_cast<const float2*>(op.stats.data<float>()),
        reinterpret_cast<cuda::RowGradient*>(memory.data<float>()), gq, gkv, op.q.size(0));
  }
#endif

  Tensor forward(const Tensor& in_q, const Tensor& in_kv, const Tensor& in_mask) {
    q = in_q.contiguous();
    kv = in_kv.contiguous();
    if (in_mask.defined()) mask = in_mask.expand({q.size(0), q.size(1), kv.size(1)}).contiguous();
    stats = empty({q.size(0), q.size(2), q.size(1), 2}, compute_type(q.dtype()), q.device());
    const Shape shape{q.size(0), q.size(1), q.size(2) * q.size(3)};
    if (kv.numel() == 0) return zeros(shape, q.dtype(), q.device());
    Tensor out = empty(shape, q.dtype(), q.device());
    if (out.numel() == 0) return out;
    dispatch(q, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<CrossAttention>(dev, *this, out.data<T>());
    });
    if (q.device().is_cuda()) result = out;
    return out;
  }
  Grads backward(const Tensor& gy, Needs) {
    if (q.numel() == 0 || kv.numel() == 0)
      return {zeros(q.shape(), q.dtype(), q.device()), zeros(kv.shape(), kv.dtype(), kv.device()), {}};
    const Tensor go = gy.contiguous();
    Tensor gq = empty_like(q), gkv = empty_like(kv);
    dispatch(q, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<CrossAttention>(dev, *this, static_cast<const T*>(go.data<T>()), gq.data<T>(),
                                      gkv.data<T>());
    });
    return {gq, gkv, {}};
  }

  Tensor reference(const Tensor& x, const Tensor& of_keys, const Tensor& added) const {
    const auto by_head = [](const Tensor& t) { return t.permute({0, 2, 1, 3}); };
    const Tensor k = by_head(of_keys.select(2, 0)), v = by_head(of_keys.select(2, 1));
    Tensor s =
        matmul(by_head(x), k.transpose(-1, -2)) * (scale != 0 ? scale : 1 / std::sqrt(double(x.size(3))));
    if (added.defined())
      s = s + added.reshape({added.size(0), 1, added.size(1), added.size(2)}).to(s.dtype());
    return by_head(matmul(softmax(s), v)).reshape({x.size(0), x.size(1), x.size(2) * x.size(3)});
  }
  static std::vector<Sample<CrossAttention>> samples() {
    const auto mask = [](Shape shape) { return constant(wide({shape, -3, 3})); };
    return {{{}, {{{2, 5, 2, 4}, -2, 2}, {{2, 7, 2, 2, 4}, -2, 2}, mask({2, 5, 7})}},
            {{}, {{{2, 9, 3, 8}, -2, 2}, {{2, 3, 2, 3, 8}, -2, 2}, left_out()}},
            {{-0.4}, {{{3, 4, 1, 5}, -2, 2}, {{3, 6, 2, 1, 5}, -2, 2}, mask({1, 4, 6})}},
            {{}, {{{1, 1, 1, 1}}, {{1, 1, 2, 1, 1}}, mask({1, 1, 1})}},
            {{}, {{{2, 0, 1, 3}}, {{2, 4, 2, 1, 3}}, mask({2, 1, 4})}},
            {{}, {{{2, 3, 1, 4}}, {{2, 0, 2, 1, 4}}, left_out()}},
            // More than a warp in every dimension; several blocks of queries on the CPU, the last one uneven.
            {{}, {{{2, 70, 2, 36}, -0.7, 0.7}, {{2, 40, 2, 2, 36}, -0.7, 0.7}, mask({2, 70, 40})}},
            {{}, {{{2, 131, 1, 4}, -2, 2}, {{2, 50, 2, 1, 4}, -2, 2}, mask({2, 131, 50})}}};
  }
};
PURSUIT_OPERATOR(CrossAttention)

Tensor cross_attention(const Tensor& q, const Tensor& kv, const Tensor& mask, double scale) {
  require_defined("cross_attention", {&q, &kv});
  if (q.ndim() != 4 || kv.ndim() != 5 || kv.size(2) != 2 || kv.size(0) != q.size(0) ||
      kv.size(3) != q.size(2) || kv.size(4) != q.size(3) || q.size(3) < 1 || kv.dtype() != q.dtype() ||
      kv.device() != q.device() || !is_floating(q.dtype()))
    fail("cross_attention", "got queries " + q.str() + " and keys and values " + kv.str() +
                                ", need [B, M, H, D] and [B, N, 2, H, D] of one dtype and device");
  const auto broadcasts = [&] {
    const Shape scores{q.size(0), q.size(1), kv.size(1)};
    if (mask.ndim() > scores.size()) return false;
    for (int d = 1; d <= mask.ndim(); ++d)
      if (mask.size(-d) != 1 && mask.size(-d) != scores[scores.size() - d]) return false;
    return true;
  };
  if (mask.defined() &&
      (!broadcasts() || mask.dtype() != compute_type(q.dtype()) || mask.device() != q.device()))
    fail("cross_attention",
         "got mask " + mask.str() + " for queries " + q.str() + " and keys and values " + kv.str() +
             ", need [B, M, N] or what broadcasts to it, in f32 (f64 with f64), on their device");
  if (mask.needs_grad())
    fail("cross_attention", "got a mask that needs a gradient, but none is computed; use mask.detach()");
  return apply(CrossAttention{scale}, q, kv, mask);
}

}  // namespace pursuit
