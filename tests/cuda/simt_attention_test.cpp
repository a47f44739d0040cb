// Attention on the simulated GPU at sizes beyond the operator's samples.
#ifdef PURSUIT_SIMULATED
#include <doctest/doctest.h>

#include "cuda/attention.cuh"
#include "engine/ops.h"
#include "tests/differences.h"

using namespace pursuit;
using namespace pursuit::cuda;

namespace {

struct Outcome {
  Tensor y, gx;
};

Outcome run(const Tensor& values, const Tensor& go, const AttentionOptions& options) {
  Tensor x = values;
  x.requires_grad();
  const Tensor y = attention(x, options);
  y.backward(go);
  return {y.detach(), x.grad()};
}

// The largest difference relative to the largest number.
double error(const Tensor& got, const Tensor& want) {
  return largest_difference(got, want) / largest_magnitude(want);
}

void check_bf16(const Shape& shape, const AttentionOptions& options) {
  const Tensor x = uniform(shape, -0.7, 0.7, 1, 1, DType::bf16);
  const Tensor go = uniform({shape[0], shape[1], shape[3] * shape[4]}, -1, 1, 1, 2, DType::bf16);
  const Outcome want = run(x.to(DType::f64), go.to(DType::f64), options);
  const Outcome got = run(x.to(cuda_device()), go.to(cuda_device()), options);
  CHECK(error(got.y, want.y) < 0x1p-7);
  CHECK(error(got.gx, want.gx) < 0x1p-7);
}

}  // namespace

TEST_CASE("attention on the GPU: heads that are longer than shared memory, in bf16") {
  check_bf16({1, 215, 2, 1, 64}, {});
  check_bf16({1, 330, 3, 1, 64}, {.causal = true});
  check_bf16({1, 330, 2, 1, 64}, {.causal = true});
}

// By SIMT_SHARED: all on chip, or streamed where a block has less shared memory.
TEST_CASE("RPC-Attention on the GPU: heads of width 64 in f32") {
  const Tensor x = uniform({1, 100, 2, 1, 64}, -0.7, 0.7, 1, 1), go = uniform({1, 100, 64}, -1, 1, 1, 2);
  const auto run = [&](const Tensor& values, const Tensor& gradient) {
    Tensor kv = values;
    kv.requires_grad();
    const Tensor y = rpc_attention(kv, {.iterations = 2, .lambda = 1.5});
    y.backward(gradient);
    return Outcome{y.detach(), kv.grad()};
  };
  const Outcome want = run(x.to(DType::f64), go.to(DType::f64)),
                got = run(x.to(cuda_device()), go.to(cuda_device()));
  CHECK(error(got.y, want.y) < 1e-5);
  CHECK(error(got.gx, want.gx) < 1e-5);
}

// A block that makes all strips of its head, as where there are many heads, does the same as several.
TEST_CASE("attention on the GPU: one block a head") {
  const AttentionShape a{150, 16, 2, 1, 0.25f, true, 0, 1};
  const Tensor x = uniform({1, a.n, 2, 1, a.d}, -2, 2, 1, 1).to(cuda_device());
  const Tensor go = uniform({1, a.n, a.d}, -1, 1, 1, 2).to(cuda_device());
  const auto with = [&](int64_t heads) {
    const Tensor y = empty_like(go), gx = empty_like(x), stats = empty({a.n, 2}, DType::f32, x.device()),
                 memory = empty({a.n, 4}, DType::f32, x.device());
    auto* saved = reinterpret_cast<float2*>(stats.data<float>());
    auto* rows = reinterpret_cast<RowGradient*>(memory.data<float>());
    const auto one_head = [&](StripLaunch l) {
      CHECK((l.plan.groups == 1) == (heads > 1));
      l.grid.blocks = dim3(unsigned(l.plan.groups));
      return l;
    };
    const StripLaunch forward =
                          one_head(deal_strips<QueryStrip<float, 16>, 2, 1, forward_shared>(a.n, heads)),
                      queries =
                          one_head(deal_strips<QueryStrip<float, 16>, 2, 2, backward_shared>(a.n, heads)),
                      keys = one_head(deal_strips<KeyStrip<float, 16>, 3, 3, backward_shared>(a.n, heads));
    const float *px = x.data<float>(), *pg = go.data<float>();
    launch<attention_kernel<float, 16>>(forward.grid, px, y.data<float>(), saved, a, forward.plan);
    launch<attention_query_gradient_kernel<float, 16>>(queries.grid, px, nullptr, pg, saved, rows, nullptr, a,
                                                       queries.plan);
    launch<attention_key_gradient_kernel<float, 16, true, true, true>>(keys.grid, px, pg, rows,
                                                                       gx.data<float>(), a, keys.plan);
    return Outcome{y.to(cpu), gx.to(cpu)};
  };
  const Outcome several = with(1), one = with(256);
  CHECK(several.y.to_vector() == one.y.to_vector());
  CHECK(several.gx.to_vector() == one.gx.to_vector());
}
#endif
