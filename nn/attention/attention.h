#pragma once
#include <memory>
#include <string>

#include "nn/attention/kind.h"
#include "nn/generator.h"
#include "nn/layers.h"
#include "nn/module.h"

namespace pursuit::nn {

// What the attention layers of a model are: models know only this and Attention, not the kinds.
struct AttentionConfig {
  std::string kind = "softmax";  // see attention_kinds()
  KindOptions options = {};      // {{"iterations", 2}}; those that are left out have their defaults
  bool causal = false;           // a token sees those before it and itself
  bool bias = true;              // of both projections
  // The blocks that run the kind: "all", "none", numbers and ranges from 0 ("0,3-5"), or "auto": the first
  // one of kinds that iterate, all of others.
  std::string layers = "auto";
  // The kind of the other blocks; "auto": symmetric where keys serve as queries, else softmax.
  std::string other = "auto";
};

// Whether `layers` of a config says which of so many blocks it means.
bool are_layers(const std::string& layers, int64_t depth);
// Throws Error where they do not, where there is no such kind or option, and where a kind cannot be causal.
void check(const AttentionConfig& config, int64_t depth);
// Whether a block runs the kind, and the config of the block's layer.
bool runs_kind(const AttentionConfig& config, int64_t block);
AttentionConfig of_block(const AttentionConfig& config, int64_t block);
// How often a block's attention is computed: 1, or the option "iterations" of kinds that iterate.
int64_t iterations_of_block(const AttentionConfig& config, int64_t block);

// Keys and values [B, H, tokens so far, D] of a layer that goes on with further tokens; empty at first.
struct AttentionCache {
  Tensor keys, values;
};

// Multi-head self-attention with timm's names: `qkv` [parts * dim, dim] with rows in the order q, k, v (k, v
// where keys serve as queries), `proj` [dim, dim], and what the kind has.
class Attention : public Callable<Attention> {
 public:
  // Runs config.kind. `tokens` of a sequence, for kinds that are made for a number of them.
  Attention(int64_t dim, int64_t heads, const AttentionConfig& config, int64_t tokens = 0);
  // x [B, N, dim], residual likewise or undefined: residual + proj(attention(qkv(x))). Dropout is of the
  // probabilities, which are in memory then, [B, H, N, N].
  Tensor forward(const Tensor& x, const Tensor& residual = {}, const Dropout& dropout = {}) const;

  // The same for tokens x [B, M, dim] that follow those in the cache, and adds them to it. Off the tape. For
  // the kinds of which has_cache is true.
  Tensor forward_cached(const Tensor& x, AttentionCache& cache) const;
  bool has_cache() const { return config_.causal && traits_.has_cache; }

  // Attention probabilities of the first `queries` tokens, all by default, [B, H, queries, N], see
  // AttentionKind. Off the tape.
  Tensor probabilities(const Tensor& x, int64_t queries = -1) const;

  // The rows of `qkv` that make the heads' queries and keys, [H, D, dim], on the tape; the same rows where
  // keys serve as queries. W_QK = W_Q^T W_K.
  Tensor query_weights() const;
  Tensor key_weights() const;

  const AttentionConfig& config() const { return config_; }
  Linear qkv, proj;

 private:
  Tensor project(const Tensor& x) const;
  int64_t dim_, heads_;
  AttentionConfig config_;
  KindTraits traits_;
  std::unique_ptr<AttentionKind> kind_;
};

}  // namespace pursuit::nn
