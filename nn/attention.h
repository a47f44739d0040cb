#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/ops.h"
#include "nn/layers.h"
#include "nn/module.h"
#include "nn/noise.h"

namespace pursuit::nn {

// The attention family. A kind is chosen here and nowhere else: models know only this module.
enum class AttentionKind {
  softmax,       // q, k, v
  symmetric,     // keys as queries, no query weights
  rpc,           // principal attention pursuit (symmetric)
  svt,           // RPC with exact singular value thresholding (symmetric)
  scaled_s,      // softmax attention of (I - S) v, S learned
  scaled_alpha,  // softmax attention of (I - alpha softmax(k k^T)) v, alpha learned
  clipped,       // clipped softmax
  gated,         // a learned gate on every head and token
  linear,        // feature map elu + 1
};
AttentionKind attention_kind(const std::string& name);  // throws with the list of names
const char* name_of(AttentionKind kind);
const std::vector<std::string>& attention_kinds();

// svt and scaled_s mix all tokens by what they are and cannot be causal.
bool may_be_causal(AttentionKind kind);

struct AttentionConfig {
  AttentionKind kind = AttentionKind::softmax;
  bool causal = false;                // a token sees those before it and itself; see may_be_causal
  bool bias = true;                   // of both projections
  RpcOptions rpc;                     // kinds rpc and svt
  double gamma = -0.03, zeta = 1.03;  // kind clipped
  int64_t tokens = 0;                 // kind scaled_s: the sequence length S is made for
};

// Keys and values [B, H, tokens so far, D] of a layer that goes on with further tokens; empty at first.
struct AttentionCache {
  Tensor keys, values;
};

// Multi-head self-attention with timm's names: `qkv` [parts * dim, dim] with rows in the order q, k, v (k, v
// where keys serve as queries), `proj` [dim, dim].
class Attention : public Module {
 public:
  Attention(int64_t dim, int64_t heads, const AttentionConfig& config);
  // x [B, N, dim], residual likewise or undefined: residual + proj(attention(qkv(x))). Dropout is of the
  // probabilities, those of the last iteration for iterated kinds and of the outer mixture for scaled ones;
  // they are in memory then, [B, H, N, N].
  Tensor forward(const Tensor& x, const Tensor& residual = {}, const Dropout& dropout = {}) const;

  // The same for tokens x [B, M, dim] that follow those in the cache, and adds them to it. Off the tape. For
  // the kinds of which has_cache is true.
  Tensor forward_cached(const Tensor& x, AttentionCache& cache) const;
  bool has_cache() const;

  // Attention probabilities of the first `queries` tokens, all by default, [B, H, queries, N]: for iterated
  // kinds those of the last iteration, before the clip of clipped, and of scaled kinds the outer mixture. Off
  // the tape.
  Tensor probabilities(const Tensor& x, int64_t queries = -1) const;

  // The rows of `qkv` that make the heads' queries and keys, [H, D, dim], on the tape; the same rows where
  // keys serve as queries. W_QK = W_Q^T W_K.
  Tensor query_weights() const;
  Tensor key_weights() const;

  const AttentionConfig& config() const { return config_; }
  Linear qkv, proj;
  Tensor s, alpha, gate_weight, gate_bias;  // of the kinds that have them

 private:
  Tensor project(const Tensor& x) const;
  Tensor mix(const Tensor& packed, const Tensor& x) const;
  Tensor weights(const Tensor& packed, int64_t queries) const;
  Tensor mix_by(const Tensor& weights, const Tensor& v, const Tensor& x, const Dropout& dropout) const;
  int64_t dim_, heads_;
  AttentionConfig config_;
};

}  // namespace pursuit::nn
