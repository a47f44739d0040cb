#pragma once
#include <vector>

#include "engine/ops.h"
#include "nn/attention/kind.h"

// Building blocks of attention kinds, in addition to engine/ops.h. The attention functions take packed
// projections [B, N, 3 (q, k, v), H, D] and return [B, N, H * D], heads merged, like pursuit::attention.
namespace pursuit::nn {

// Throws Error unless qkv is [batch, tokens, parts, heads, head_dim] with at least this many parts.
void check_packed(const char* where, const Tensor& qkv, int64_t least_parts);

// Part i (negative: from the end) of packed projections, as [B, H, N, D].
Tensor part(const Tensor& qkv, int64_t i);

// The inverse for several tensors [B, H, N, D] of one size: [B, N, parts, H, D].
Tensor pack(const std::vector<Tensor>& parts);

// [B, N, H * D] to [B, H, N, D] and back.
Tensor split_heads(const Tensor& x, int64_t heads);
Tensor merge_heads(const Tensor& x);

// The gate of every head and token, sigmoid(<h, weight> + bias): h [B, H, N, D] are the heads' slices of the
// layer's input, weight [H, D], bias [H]; result [B, H, N]. Bondarenko et al. 2023, equation 5.
Tensor attention_gate(const Tensor& h, const Tensor& weight, const Tensor& bias);

// mixed [B, N, H * D] times the gate [B, H, N] of its heads.
Tensor apply_gate(const Tensor& mixed, const Tensor& gate);

// gate * attention.
Tensor gated_attention(const Tensor& qkv, const Tensor& h, const Tensor& gate_weight, const Tensor& gate_bias,
                       const AttentionOptions& options = {});

// Scaled attention (Teo & Nguyen 2024, section 4): part of the values' mixture is subtracted from the values
// before they are mixed. With A = softmax(q k^T scale) and K = softmax(k k^T scale):
enum class ScaledVariant {
  s,           // A (v - S v), S [H, N, N]
  alpha,       // A (v - alpha K v), alpha [1]
  alpha_asym,  // A (v - alpha A v)
  alpha_sym,   // K (v - alpha K v); qkv may also be [B, N, 2 (k, v), H, D]
};
Tensor scaled_attention(const Tensor& qkv, ScaledVariant variant, const Tensor& s_or_alpha,
                        const AttentionOptions& options = {});
// The values to be mixed, after the subtraction, [B, H, N, D].
Tensor scaled_values(const Tensor& qkv, ScaledVariant variant, const Tensor& s_or_alpha,
                     const AttentionOptions& options = {});

// Linear attention (Katharopoulos et al. 2020) with the feature map phi = elu + 1: phi(q) (phi(k)^T v) /
// (phi(q) sum_n phi(k_n)). Its cost grows with N instead of N^2, except when causal: then it is
// linear_attention_weights times v, which costs N^2.
Tensor linear_attention(const Tensor& qkv, bool causal = false);

// phi(q) phi(k)^T with rows divided by their sums; q and k [B, H, N, D], result [B, H, N, N].
Tensor linear_attention_weights(const Tensor& q, const Tensor& k, bool causal);

// softmax(scale q k^T) for queries [B, H, M, D] and keys [B, H, N, D]: [B, H, M, N]. Causal queries are the
// last M of the N tokens; each sees the keys up to its own.
Tensor attention_weights(const Tensor& q, const Tensor& k, double scale, bool causal);

// Symmetric attention on keys that were denoised by principal component pursuit with exact singular value
// thresholding. Per batch and head, with K [N, D], mu = N D / (4 sum |K|), L = S = U = 0, iterations times
//   L = D_{1/mu}(K - S + U),  S = soft_threshold(K - L + U, lambda / mu),  U = U + K - L - S,
// the ADMM of Candes, Li, Ma & Wright 2011 with the dual divided by mu (engine/solve/pcp.h); then
// softmax(scale L L^T) V. RPC-Attention replaces D by the attention itself. Fully differentiable. Not for
// causal models: a token's denoised key depends on all tokens, including later ones.
struct SvtAttentionOptions {
  int iterations = 4;  // as in RPC-Attention; each costs one eigendecomposition [D, D] per head
  double lambda = 0;   // 0: 1 / sqrt(max(N, D))
  double scale = 0;    // factor of the scores; 0: 1 / sqrt(D)
  bool detach_mu = false;
};

// kv [B, N, 2, H, D], result [B, N, H * D].
Tensor svt_attention(const Tensor& kv, const SvtAttentionOptions& options = {});

// The denoised keys [B, H, N, D].
Tensor svt_keys(const Tensor& kv, const SvtAttentionOptions& options = {});

// L and S of every iteration of pursuit::rpc_attention, computed operator by operator, as it does not keep
// them. The last L is its output.
std::vector<PursuitStep> rpc_iterations(const Tensor& packed, const RpcOptions& options = {});

}  // namespace pursuit::nn
