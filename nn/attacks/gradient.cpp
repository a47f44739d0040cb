#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/ops.h"
#include "nn/attacks/parts.h"

namespace pursuit::attacks {

Tensor sign(const Tensor& g) {
  // There is no sign operator; this is exact down to 1e-38, the smallest normal f32.
  return clamp(g * 1e38, -1, 1);
}

uint64_t stream_of(const Victim& v, int64_t row, const streams::Range& draws, uint64_t i) {
  return streams::attacks.at(uint64_t(v.number(row)) * streams::attack::count + draws.at(i));
}

Tensor uniform_like(const Victim& v, const Tensor& x, double lo, double hi) {
  Shape one = x.shape();
  one.erase(0);
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < x.size(0); ++i)
    rows.push_back(
        uniform(one, lo, hi, v.seed, stream_of(v, i, streams::attack::start), x.dtype(), x.device()));
  return stack(rows, 0);
}

Tensor input_gradient(const Victim& v, const Tensor& x, const std::function<Tensor(const Tensor&)>& slope) {
  if (!grad_enabled()) fail("attack", "gradients are switched off; call it outside NoGrad");
  Tensor leaf = x.detach();
  leaf.requires_grad();
  const Tensor logits = v.logits(leaf).to(DType::f32);
  logits.backward(slope(logits.detach()));
  const Tensor g = leaf.grad();
  if (!g.defined()) fail("attack", "the logits do not depend on the pictures");
  if (!std::isfinite(sum(abs(g)).item()))
    fail("attack", "the gradient with respect to the pictures is not finite");
  return g;
}

namespace {

// The gradient of each picture's cross-entropy with respect to its pixels.
Tensor loss_gradient(const Victim& v, const Tensor& x) {
  return input_gradient(v, x, [&](const Tensor& logits) {
    Tensor leaf = logits;
    leaf.requires_grad();
    const Tensor loss = cross_entropy(leaf, v.labels);
    // The loss is a mean; multiplying by the batch size keeps small gradients of large batches.
    loss.backward(full(loss.shape(), double(x.size(0)), loss.dtype(), loss.device()));
    return leaf.grad();
  });
}

Tensor kept_in_range(const Victim& v, const Tensor& x) { return v.clip ? clamp(x, 0, 1) : x; }

Tensor as_host_floats(const Tensor& x) { return x.to(DType::f32).to(cpu).contiguous(); }

// Keeps the largest entries in magnitude, a `share` of all and their ties, as +-step / (number of entries
// kept); sets the others to 0.
void keep_steepest(float* g, int64_t n, double share, double step, std::vector<float>& sizes) {
  const int64_t kept = std::clamp<int64_t>(std::llround(share * double(n)), 1, n);
  sizes.resize(size_t(n));
  for (int64_t i = 0; i < n; ++i) sizes[size_t(i)] = std::abs(g[i]);
  std::nth_element(sizes.begin(), sizes.begin() + (n - kept), sizes.end());
  const float least = sizes[size_t(n - kept)];
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += std::abs(g[i]) >= least && g[i] != 0;
  const float size = count ? float(step / double(count)) : 0;
  for (int64_t i = 0; i < n; ++i) g[i] = std::abs(g[i]) >= least && g[i] != 0 ? std::copysign(size, g[i]) : 0;
}

// Projects d onto the l1-ball of radius eps by shrinking all entries towards zero by the same amount. Duchi
// et al., "Efficient projections onto the l1-ball for learning in high dimensions", ICML 2008.
void project_l1(float* d, int64_t n, double eps, std::vector<float>& sizes) {
  double length = 0;
  sizes.clear();
  for (int64_t i = 0; i < n; ++i) {
    length += std::abs(d[i]);
    if (d[i] != 0) sizes.push_back(std::abs(d[i]));
  }
  if (length <= eps) return;
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  double sum = 0, shrink = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    sum += sizes[k];
    const double candidate = (sum - eps) / double(k + 1);
    if (candidate >= sizes[k]) break;
    shrink = candidate;
  }
  for (int64_t i = 0; i < n; ++i) {
    const double size = std::max(std::abs(d[i]) - shrink, 0.0);
    d[i] = float(std::copysign(size, d[i]));
  }
}

}  // namespace

Tensor fgsm(const Victim& v, const Tensor& x, double eps) {
  return kept_in_range(v, x + sign(loss_gradient(v, x)) * eps);
}

Tensor pgd(const Victim& v, const Tensor& x, double eps, const PgdOptions& o) {
  Tensor adv = kept_in_range(v, x + uniform_like(v, x, -eps, eps));
  for (int i = 0; i < o.steps; ++i) {
    const Tensor moved = adv + sign(loss_gradient(v, adv)) * (o.step * eps);
    adv = kept_in_range(v, x + clamp(moved - x, -eps, eps));
  }
  return adv;
}

Tensor sld(const Victim& v, const Tensor& x, const SldOptions& o) {
  const int64_t batch = x.size(0), n = batch ? x.numel() / batch : 0;
  Tensor adv = x;
  std::vector<float> scratch;
  for (int i = 0; i < o.steps; ++i) {
    const Tensor g = as_host_floats(loss_gradient(v, adv)) * 1.0;  // * 1.0 copies it, to be overwritten
    for (int64_t b = 0; b < batch; ++b) keep_steepest(g.data<float>() + b * n, n, o.share, o.step, scratch);
    const Tensor change = as_host_floats(adv - x) + g;
    for (int64_t b = 0; b < batch; ++b) project_l1(change.data<float>() + b * n, n, o.eps, scratch);
    adv = kept_in_range(v, x + change.to(x.dtype()).to(x.device()));
  }
  return adv;
}

Tensor noise(const Victim& v, const Tensor& x, double amplitude) {
  return kept_in_range(v, x + uniform_like(v, x, -amplitude, amplitude));
}

}  // namespace pursuit::attacks
