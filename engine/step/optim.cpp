#include "engine/step/optim.h"

#include <algorithm>
#include <cmath>

#include "cuda/optim.cuh"
#include "engine/cpu/parallel.h"
#include "engine/cpu/rows.h"
#include "engine/operator/copy.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"
#include "engine/sizes/step_numbers.h"

namespace pursuit {

namespace {

const StepNumbers* numbers(const FlatUpdate& u) {
  return reinterpret_cast<const StepNumbers*>(u.step.data<float>());
}
const float* factor(const FlatUpdate& u) { return u.factor.defined() ? u.factor.data<float>() : nullptr; }

// --- the CPU

// Calls body(offset, count, decays) for parts of the ranges, in parallel.
template <class F> void for_each_part(const FlatUpdate& u, const F& body) {
  parallel_for(u.values.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
    for (const FlatRange& r : u.ranges) {
      const int64_t from = std::max(begin, r.at), to = std::min(end, r.at + r.count);
      if (from < to) body(from, to - from, r.decays);
    }
  });
}

void adamw(Cpu, const FlatUpdate& u, const AdamW& o) {
  const StepNumbers t = *numbers(u);
  const double scale = factor(u) ? *factor(u) : 1;
  for_each_part(u, [&](int64_t at, int64_t n, bool decays) {
    rows<float>().adamw(u.values.data<float>() + at, u.grads.data<float>() + at, u.first.data<float>() + at,
                        u.second.data<float>() + at, n,
                        {decays ? t.keep : 1.0, t.rate, t.unbias, o.beta1, o.beta2, o.eps, scale});
  });
  if (u.copy.defined()) copy_values(u.copy, u.values);
}

void sgd(Cpu, const FlatUpdate& u, const Sgd& o) {
  const double lr = numbers(u)->lr, scale = factor(u) ? *factor(u) : 1;
  for_each_part(u, [&](int64_t at, int64_t n, bool decays) {
    rows<float>().sgd(u.values.data<float>() + at, u.grads.data<float>() + at, u.first.data<float>() + at, n,
                      {lr, o.momentum, decays ? o.weight_decay : 0, o.nesterov, scale});
  });
  if (u.copy.defined()) copy_values(u.copy, u.values);
}

void ema(Cpu, const Tensor& average, const Tensor& values, double decay) {
  parallel_for(values.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
    rows<float>().ema(average.data<float>() + begin, values.data<float>() + begin, end - begin, decay);
  });
}

double norm(const Tensor& x) {
  constexpr int64_t block = 1 << 16;
  const int64_t n = x.numel(), blocks = (n + block - 1) / block;
  std::vector<double> sums(static_cast<size_t>(blocks));
  parallel_for(blocks, 4, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      sums[size_t(b)] =
          rows<float>().sum_squares(x.data<float>() + b * block, std::min(block, n - b * block));
  });
  double sum = 0;
  for (const double s : sums) sum += s;
  return std::sqrt(sum);
}

void gather(Cpu, const std::vector<FlatPart>& parts, const Tensor& flat, bool add) {
  for (const FlatPart& p : parts) {
    const Tensor to = flat.slice(0, p.at, p.at + p.count);
    if (p.tensor.defined() && p.tensor.raw() == to.raw()) continue;
    if (!p.tensor.defined()) {
      if (!add) std::fill_n(to.data<float>(), p.count, 0.0f);
      continue;
    }
    const Tensor part = p.tensor.contiguous().reshape({p.count});
    add ? add_to(to, part) : copy_values(to, part);
  }
}

void gradient_factor(Cpu, const Tensor& x, double most, const Tensor& weight, const Tensor& factor) {
  const double w = weight.defined() ? weight.item() : 1;
  const double clip = most > 0 ? std::min(1.0, most / (norm(x) / w + 1e-6)) : 1;
  *factor.data<float>() = float(clip / w);
}

// --- GPUs

#ifdef PURSUIT_GPU

constexpr int threads = 256;

// Enough blocks for the largest GPUs. Sums are split the same way on all GPUs, for equal bits.
unsigned blocks_of(int64_t n) { return cuda::blocks_for(n, 4 * threads, 2048); }

cuda::FlatPointers pointers(const FlatUpdate& u) {
  return {u.values.data<float>(),
          u.grads.data<float>(),
          u.first.data<float>(),
          u.second.defined() ? u.second.data<float>() : nullptr,
          u.decays.data<uint8_t>(),
          factor(u),
          u.copy.defined() ? u.copy.data<bf16>() : nullptr,
          u.values.numel()};
}

void adamw(Cuda, const FlatUpdate& u, const AdamW& o) {
  if (u.values.numel() == 0) return;
  cuda::launch<cuda::adamw_kernel>({blocks_of(u.values.numel()), threads}, pointers(u), numbers(u),
                                   float(o.beta1), float(1 - o.beta1), float(o.beta2), float(1 - o.beta2),
                                   float(o.eps));
}

void sgd(Cuda, const FlatUpdate& u, const Sgd& o) {
  if (u.values.numel() == 0) return;
  cuda::launch<cuda::sgd_kernel>({blocks_of(u.values.numel()), threads}, pointers(u), numbers(u),
                                 float(o.momentum), float(o.weight_decay), o.nesterov);
}

void ema(Cuda, const Tensor& average, const Tensor& values, double decay) {
  const int64_t n = values.numel();
  if (n == 0) return;
  cuda::launch<cuda::ema_kernel>({blocks_of(n), threads}, average.data<float>(), values.data<float>(), n,
                                 float(1 - decay));
}

void gather(Cuda, const std::vector<FlatPart>& parts, const Tensor& flat, bool add) {
  std::vector<Tensor> dense;  // keeps the copies alive until the launches
  for (size_t begin = 0; begin < parts.size(); begin += cuda::Parts::most) {
    const size_t number = std::min<size_t>(parts.size() - begin, cuda::Parts::most);
    cuda::Parts table{};
    int64_t longest = 1;
    for (size_t i = 0; i < number; ++i) {
      const FlatPart& p = parts[begin + i];
      dense.push_back(p.tensor.defined() ? p.tensor.contiguous() : p.tensor);
      const bool rounded = p.tensor.defined() && p.tensor.dtype() == DType::bf16;
      if (p.tensor.defined() && !rounded) dense.back().data<float>();  // throws unless it is f32
      table.part[i] = {p.tensor.defined() ? dense.back().raw() : nullptr, p.at, p.count, rounded};
      longest = std::max(longest, p.count);
    }
    cuda::launch<cuda::gather_kernel>(
        {{cuda::blocks_for(longest, 4 * threads, 64), unsigned(number)}, threads}, table, add,
        flat.data<float>());
  }
}

void gradient_factor(Cuda, const Tensor& x, double most, const Tensor& weight, const Tensor& factor) {
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

#endif

}  // namespace

Tensor decay_mask(const std::vector<FlatRange>& ranges, int64_t n, Device device) {
  if (!device.is_cuda()) return {};
  std::vector<uint8_t> mask(static_cast<size_t>(n));
  for (const FlatRange& r : ranges) std::fill_n(mask.begin() + r.at, r.count, uint8_t(r.decays));
  return from_vector(mask, {n}, device);
}

void write_step(const Tensor& step, int64_t t, double lr, const AdamW& o) {
  const StepNumbers numbers{float(lr), float(1 - lr * o.weight_decay),
                            float(lr / (1 - std::pow(o.beta1, double(t)))),
                            float(1 / (1 - std::pow(o.beta2, double(t))))};
  write_small(step, &numbers);
}

void adamw(const FlatUpdate& u, const AdamW& options) {
  dispatch(u.values.device(), "adamw", [&](auto device) { adamw(device, u, options); });
}

void sgd(const FlatUpdate& u, const Sgd& options) {
  dispatch(u.values.device(), "sgd", [&](auto device) { sgd(device, u, options); });
}

void ema(const Tensor& average, const Tensor& values, double decay) {
  dispatch(values.device(), "ema", [&](auto device) { ema(device, average, values, decay); });
}

void gather(const std::vector<FlatPart>& parts, const Tensor& flat, bool add) {
  dispatch(flat.device(), "gather", [&](auto device) { gather(device, parts, flat, add); });
}

void gradient_factor(const Tensor& x, double most, const Tensor& weight, const Tensor& factor) {
  dispatch(x.device(), "gradient_factor",
           [&](auto device) { gradient_factor(device, x, most, weight, factor); });
}

}  // namespace pursuit
