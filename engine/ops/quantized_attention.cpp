#include "cuda/quantized_attention.cuh"

#include <cmath>

#include "engine/cpu/int8_kernels.h"
#include "engine/ops/packed.h"
#include "engine/ops/quantized.h"

namespace pursuit {

namespace {

// Rows [begin, end) of one head, as attend_forward with every tensor rounded to its grid. q, k and v are
// rounded already. Uses scratch slots 0, 8 and 9.
void attend(const AttendShape& a, const AttentionGrids& grids, const float* q, const float* k, const float* v,
            Rows<float> out, int64_t begin, int64_t end) {
  const int64_t block = a.block();
  float* s = scratch<float>(0, std::min(block, end - begin) * a.n + 2 * block);
  float* const stats = s + std::min(block, end - begin) * a.n;
  const Layout layout = a.layout();
  const RightFactor<float> keys(layout, true, k, a.d, a.d, a.n, 8),
      values(layout, false, v, a.d, a.n, a.d, 9);
  for (int64_t i = begin; i < end; i += block) {
    const int64_t m = std::min(block, end - i), cols = a.columns(i, m);
    attend_scores(a, Rows<const float>{q, a.d}, Rows<const float>{k, a.d}, keys, i, m, cols, float(a.scale),
                  s, cols);
    int8_kernels().fake_quantize(s, s, m * cols, grids.scores);
    rows<float>().softmax_rows(s, m, cols, cols, stats, a.causal ? i : -1);
    if (a.clips()) rows<float>().clipped_softmax_rows(s, m, cols, cols, float(a.gamma), float(a.zeta));
    int8_kernels().fake_quantize(s, s, m * cols, grids.probabilities);
    values.multiply(m, a.d, cols, 1.0f, s, cols, 0.0f, out.at(i), out.ld);
  }
}

struct QuantizedAttention {
  static constexpr const char* name = "quantized_attention";

  static void kernel(Cpu, const float* qkv, const PackedShape& s, const AttendShape& a,
                     const AttentionGrids& grids, float* y) {
    for_each_part_of_heads(s, !a.causal, [&](int64_t b, int64_t h, int64_t begin, int64_t end) {
      float* const own = scratch<float>(3, 3 * s.n * s.d);
      // Part `which` of the projections, rounded to its grid.
      const auto rounded = [&](int64_t which, const AffineGrid& grid, int slot) {
        float* const to = own + slot * s.n * s.d;
        const float* x = qkv + ((b * s.n * s.parts + which) * s.heads + h) * s.d;
        for (int64_t i = 0; i < s.n; ++i)
          int8_kernels().fake_quantize(x + i * s.parts * s.width(), to + i * s.d, s.d, grid);
        return static_cast<const float*>(to);
      };
      const float* k = rounded(s.parts - 2, grids.keys, 1);
      const float* q = s.parts == 2 ? k : rounded(0, grids.queries, 0);
      const float* v = rounded(s.parts - 1, grids.values, 2);
      attend(a, grids, q, k, v, {y + b * s.n * s.width() + h * s.d, s.width()}, begin, end);
    });
  }
#ifdef PURSUIT_GPU
  static void kernel(Cuda, const float* qkv, const PackedShape& s, const AttendShape& a,
                     const AttentionGrids& grids, float* y) {
    const bool own_queries = s.parts == 3;
    cuda::quantized_attention(
        qkv, y, s.batch,
        {int(s.n), int(s.d), int(s.parts), int(s.heads), float(a.scale), a.causal, float(a.gamma),
         float(a.zeta)},
        {own_queries ? grids.queries : grids.keys, own_queries ? grids.keys : grids.values, grids.values,
         grids.scores, grids.probabilities});
  }
#endif
};

}  // namespace

Tensor quantized_attention(const Tensor& in, const AttentionOptions& options, const AttentionGrids& grids) {
  constexpr const char* name = QuantizedAttention::name;
  require_quantizable(name, in);
  if (in.ndim() != 5 || in.size(2) < 2 || in.size(2) > 3)
    fail(name, "got " + in.str() + ", need f32 [batch, tokens, 3 (q, k, v) or 2 (k, v), heads, head_dim]");
  OperatorCall scope(name);
  const Tensor qkv = in.detach().contiguous();
  const PackedShape s(qkv);
  const Tensor y = empty({s.batch, s.n, s.width()}, DType::f32, qkv.device());
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(double(s.d));
  const AttendShape a{s.n, s.d, scale, options.causal, options.gamma, options.zeta};
  dispatch(y.device(), name, [&](auto dev) {
    if (y.numel() > 0) launch<QuantizedAttention>(dev, qkv.data<float>(), s, a, grids, y.data<float>());
  });
  scope.end(y);
  return y;
}

}  // namespace pursuit
