#include "nn/attacks/parts.h"

#include <cmath>

#include "engine/ops.h"

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

Margin margin_of(const float* logits, int64_t classes, int64_t label) {
  if (classes < 2) fail("attack", "a margin needs at least two classes");
  int64_t other = label == 0 ? 1 : 0;
  for (int64_t j = 0; j < classes; ++j)
    if (j != label && logits[j] > logits[other]) other = j;
  return {double(logits[label]) - double(logits[other]), other};
}

Tensor Adam::step(const Tensor& x, const Tensor& g) {
  ++t_;
  m_ = m_.defined() ? m_ * 0.9 + g * 0.1 : g * 0.1;
  v_ = v_.defined() ? v_ * 0.999 + square(g) * 0.001 : square(g) * 0.001;
  const Tensor m = m_ / (1 - std::pow(0.9, t_)), v = v_ / (1 - std::pow(0.999, t_));
  return x - m / (sqrt(v) + 1e-8) * lr_;
}

}  // namespace pursuit::attacks
