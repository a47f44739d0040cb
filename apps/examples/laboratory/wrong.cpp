#include "apps/examples/laboratory/wrong.h"

#ifdef PURSUIT_SIMULATED
#include "apps/examples/laboratory/laboratory.h"
#include "cuda/launch.h"
#include "engine/ops.h"
#endif

namespace pursuit::laboratory {

#ifdef PURSUIT_SIMULATED
namespace {

// A row's maximum by a tree reduction without a barrier before its first step.
__global__ void no_barrier_kernel(const float* x, float* y) {
  cuda::Shared shared;
  float* part = shared.array<float>(64);
  const unsigned t = threadIdx.x;
  part[t] = x[blockIdx.x * 64 + t];
  if (t < 32) part[t] = fmaxf(part[t], part[t + 32]);
  __syncthreads();
  for (unsigned half = 16; half > 0; half /= 2) {
    if (t < half) part[t] = fmaxf(part[t], part[t + half]);
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = part[0];
}

struct NoBarrier : WithoutGradient {
  static constexpr const char* name = "no_barrier";
  Tensor forward(const Tensor& in) {
    const Tensor x = in.contiguous();
    if (!x.device().is_cuda()) return max_along(x, -1).values;
    const Tensor y = empty({x.size(0)}, DType::f32, x.device());
    cuda::launch<no_barrier_kernel>({unsigned(x.size(0)), 64, cuda::shared_size<float>(64)}, x.data<float>(),
                                    y.data<float>());
    return y;
  }
  static std::vector<Sample<NoBarrier>> samples() { return {{{}, {constant({{3, 64}})}}}; }
};

// A row sum by one warp that forgets the columns after the last multiple of 32.
__global__ void no_tail_kernel(const float* x, float* y, int64_t cols) {
  float sum = 0;
  for (int64_t j = threadIdx.x; j < cols / 32 * 32; j += 32) sum += x[blockIdx.x * cols + j];
  sum = cuda::warp_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

struct NoTail : WithoutGradient {
  static constexpr const char* name = "no_tail";
  Tensor forward(const Tensor& in) {
    const Tensor x = in.contiguous();
    if (!x.device().is_cuda()) return x.sum({-1});
    const Tensor y = empty({x.size(0)}, DType::f32, x.device());
    cuda::launch<no_tail_kernel>({unsigned(x.size(0)), 32}, x.data<float>(), y.data<float>(), x.size(1));
    return y;
  }
  static std::vector<Sample<NoTail>> samples() { return {{{}, {constant({{3, 70}})}}}; }
};

}  // namespace

std::vector<OperatorInfo> wrong_operators() {
  return {{NoBarrier::name, cases_of<NoBarrier>}, {NoTail::name, cases_of<NoTail>}};
}
#else
std::vector<OperatorInfo> wrong_operators() { return {}; }
#endif

}  // namespace pursuit::laboratory
