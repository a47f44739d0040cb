#include "engine/optim.h"

#include <algorithm>
#include <cmath>

#include "cuda/optim.cuh"
#include "engine/copy.h"

namespace pursuit {

#ifdef PURSUIT_GPU

namespace {

constexpr int threads = 256;

// Enough blocks to fill the largest GPUs; sums are cut at this number whatever the GPU, for the same bits.
unsigned blocks_of(int64_t n) { return cuda::blocks_for(n, 4 * threads, 2048); }

cuda::FlatPointers pointers(const FlatUpdate& u) {
  return {u.values.data<float>(),
          u.grads.data<float>(),
          u.first.data<float>(),
          u.second.defined() ? u.second.data<float>() : nullptr,
          u.decays.data<uint8_t>(),
          u.factor.defined() ? u.factor.data<float>() : nullptr,
          u.copy.defined() ? u.copy.data<bf16>() : nullptr,
          u.values.numel()};
}

const cuda::StepNumbers* numbers(const FlatUpdate& u) {
  return reinterpret_cast<const cuda::StepNumbers*>(u.step.data<float>());
}

}  // namespace

void write_step(const Tensor& step, int64_t t, double lr, double beta1, double beta2, double weight_decay) {
  const cuda::StepNumbers numbers{float(lr), float(1 - lr * weight_decay),
                                  float(lr / (1 - std::pow(beta1, double(t)))),
                                  float(1 / (1 - std::pow(beta2, double(t))))};
  write_small(step, &numbers);
}

void adamw(const FlatUpdate& u, double beta1, double beta2, double eps) {
  const int64_t n = u.values.numel();
  if (n == 0) return;
  cuda::launch<cuda::adamw_kernel>({blocks_of(n), threads}, pointers(u), numbers(u), float(beta1),
                                   float(1 - beta1), float(beta2), float(1 - beta2), float(eps));
}

void sgd(const FlatUpdate& u, double momentum, double weight_decay, bool nesterov) {
  const int64_t n = u.values.numel();
  if (n == 0) return;
  cuda::launch<cuda::sgd_kernel>({blocks_of(n), threads}, pointers(u), numbers(u), float(momentum),
                                 float(weight_decay), nesterov);
}

void ema(const Tensor& average, const Tensor& values, double decay) {
  const int64_t n = values.numel();
  if (n == 0) return;
  cuda::launch<cuda::ema_kernel>({blocks_of(n), threads}, average.data<float>(), values.data<float>(), n,
                                 float(1 - decay));
}

void gather(const std::vector<FlatPart>& parts, const Tensor& flat, bool add) {
  std::vector<Tensor> dense;  // lives until all is launched
  for (size_t begin = 0; begin < parts.size(); begin += cuda::Parts::most) {
    const size_t number = std::min<size_t>(parts.size() - begin, cuda::Parts::most);
    cuda::Parts table{};
    int64_t longest = 1;
    for (size_t i = 0; i < number; ++i) {
      const FlatPart& p = parts[begin + i];
      dense.push_back(p.tensor.defined() ? p.tensor.contiguous() : p.tensor);
      const bool rounded = p.tensor.defined() && p.tensor.dtype() == DType::bf16;
      if (p.tensor.defined() && !rounded) dense.back().data<float>();  // or it throws
      table.part[i] = {p.tensor.defined() ? dense.back().raw() : nullptr, p.at, p.count, rounded};
      longest = std::max(longest, p.count);
    }
    cuda::launch<cuda::gather_kernel>(
        {{cuda::blocks_for(longest, 4 * threads, 64), unsigned(number)}, threads}, table, add,
        flat.data<float>());
  }
}

void gradient_factor(const Tensor& x, double most, const Tensor& weight, const Tensor& factor) {
  const int64_t n = x.numel();
  const unsigned parts = most > 0 ? std::max(1u, blocks_of(n)) : 0;
  const Tensor part = empty({int64_t(parts)}, DType::f32, x.device());
  const size_t shared = cuda::shared_size<float>(cuda::warp_size);
  if (parts > 0)
    cuda::launch<cuda::sum_squares_kernel>({parts, threads, shared}, x.data<float>(), n, part.data<float>());
  cuda::launch<cuda::gradient_factor_kernel>({1, threads, shared}, part.data<float>(), int(parts),
                                             float(most), weight.defined() ? weight.data<float>() : nullptr,
                                             factor.data<float>());
}

#else

namespace {
[[noreturn]] void absent() { fail("optimizer", "this build has no CUDA"); }
}  // namespace

void write_step(const Tensor&, int64_t, double, double, double, double) { absent(); }
void adamw(const FlatUpdate&, double, double, double) { absent(); }
void sgd(const FlatUpdate&, double, double, bool) { absent(); }
void ema(const Tensor&, const Tensor&, double) { absent(); }
void gather(const std::vector<FlatPart>&, const Tensor&, bool) { absent(); }
void gradient_factor(const Tensor&, double, const Tensor&, const Tensor&) { absent(); }

#endif

}  // namespace pursuit
