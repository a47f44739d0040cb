#include "nn/focal_loss.h"

#include "engine/ops.h"

namespace pursuit::nn {

Tensor normalised_focal_loss(const Tensor& logits, const Tensor& labels, double gamma, int64_t ignore_index) {
  require_defined("normalised_focal_loss", {&logits, &labels});
  if (logits.ndim() != 3 || logits.shape() != labels.shape())
    fail("normalised_focal_loss", "got logits " + logits.str() + " and labels " + labels.str() +
                                      ", need [batch, height, width] of both");
  const Tensor labelled = (labels != double(ignore_index)).to(DType::f32),
               sign = (labels == 1).to(DType::f32) * 2.0 - 1.0;
  const Tensor x = sign * logits;
  const Tensor cross_entropy = relu(-x) + log(exp(-abs(x)) + 1.0);
  // sigmoid(-x) is 1 - p. Where it is 0, so is the loss; its power has a finite gradient for every gamma.
  const Tensor weight = labelled * (gamma == 0 ? full({1}, 1, DType::f32, x.device())
                                               : pow(clamp(sigmoid(-x), 1e-12, 1), gamma));
  constexpr double least = 1e-12;  // of the weights' sum, for a picture without labels
  const Tensor total = clamp(sum(weight, {1, 2}).detach(), least, INFINITY);
  return mean(sum(weight * cross_entropy, {1, 2}) / total);
}

}  // namespace pursuit::nn
