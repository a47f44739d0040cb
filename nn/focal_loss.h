#pragma once
#include "engine/core/tensor.h"

namespace pursuit::nn {

// The normalised focal loss of binary masks (Sofiiuk et al. 2019, arXiv 1909.07829), as in RITM. Logits f32
// [B, H, W]; labels i64 [B, H, W], 0, 1 or `ignore_index`. With p the probability of a pixel's label, a
// picture's loss is
//   sum_i (1 - p_i)^gamma (-log p_i) / sum_i (1 - p_i)^gamma
// over its labelled pixels, where the denominator has no gradient; gamma 0 is the mean cross-entropy. The
// result [] is the mean over the pictures; one without labelled pixels counts as 0.
Tensor normalised_focal_loss(const Tensor& logits, const Tensor& labels, double gamma, int64_t ignore_index);

}  // namespace pursuit::nn
