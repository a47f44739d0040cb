#include "nn/init.h"

#include <algorithm>
#include <cmath>

namespace pursuit::nn {

void fill_constant(Tensor& t, double value) { copy_values(t, full(t.shape(), value, t.dtype(), t.device())); }

void fill_normal(Tensor& t, double mean, double std, uint64_t seed, uint64_t stream) {
  copy_values(t, normal(t.shape(), mean, std, seed, stream));
}

void fill_uniform(Tensor& t, double bound, uint64_t seed, uint64_t stream) {
  copy_values(t, uniform(t.shape(), -bound, bound, seed, stream));
}

void fill_truncated_normal(Tensor& t, double std, uint64_t seed, uint64_t stream) {
  const Tensor drawn = normal(t.shape(), 0, std, seed, stream);
  // At std 0.02 the cut lies 100 standard deviations out: clamping and redrawing are the same thing.
  float* p = drawn.data<float>();
  for (int64_t i = 0; i < drawn.numel(); ++i) p[i] = std::clamp(p[i], -2.0f, 2.0f);
  copy_values(t, drawn);
}

void fill_fan_in_uniform(Tensor& t, int64_t fan_in, uint64_t seed, uint64_t stream) {
  fill_uniform(t, 1 / std::sqrt(double(std::max<int64_t>(1, fan_in))), seed, stream);
}

int64_t fan_in(const Module& model, const std::string& name) {
  const std::string weight = name.substr(0, name.rfind('.')) + ".weight";
  for (const NamedTensor& p : model.parameters())
    if (p.name == weight) return p.tensor->numel() / p.tensor->size(0);
  fail("init", "parameter " + name + " has no weight beside it");
}

}  // namespace pursuit::nn
