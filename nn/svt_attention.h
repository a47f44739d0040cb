#pragma once
#include "engine/tensor.h"

namespace pursuit::nn {

// Symmetric attention on keys cleaned by principal component pursuit with exact singular value thresholding.
// Per batch and head, with K [N, D], mu = N D / (4 sum |K|) and L = S = U = 0, `iterations` times
//   L = D_{1/mu}(K - S + U),  S = soft_threshold(K - L + U, lambda / mu),  U = U + K - L - S,
// the ADMM of Candes, Li, Ma & Wright 2011 with the dual divided by mu (engine/pcp.h); then
// softmax(scale L L^T) V. RPC-Attention puts the attention itself in the place of D. Gradients flow through
// all of it. A token's cleaned key depends on all tokens, also later ones: not for causal models.
struct SvtAttentionOptions {
  int iterations = 4;  // as RPC-Attention's; each costs an eigendecomposition [D, D] a head
  double lambda = 0;   // 0: 1 / sqrt(max(N, D))
  double scale = 0;    // of the scores; 0: 1 / sqrt(D)
  bool detach_mu = false;
};

// kv [B, N, 2, H, D], result [B, N, H * D].
Tensor svt_attention(const Tensor& kv, const SvtAttentionOptions& options = {});

// The cleaned keys [B, H, N, D].
Tensor svt_keys(const Tensor& kv, const SvtAttentionOptions& options = {});

}  // namespace pursuit::nn
