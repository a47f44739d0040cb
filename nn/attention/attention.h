#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/attention/kind.h"
#include "nn/attention/quantizers.h"
#include "nn/generator.h"
#include "nn/layers.h"
#include "nn/module.h"

namespace pursuit::nn {

// Configuration of a model's attention layers. Models use only this and Attention, not the kinds.
struct AttentionConfig {
  std::string kind = "softmax";  // see attention_kinds()
  KindOptions options = {};      // {{"iterations", 2}}; options left out have their defaults
  bool causal = false;           // a token attends to itself and earlier tokens only
  bool bias = true;              // in both projections
  bool queries_apart = false;    // parameters q [dim, dim] and kv [2 dim, dim], as FAN has, instead of qkv
  // The blocks that run the kind: "all", "none", indices and ranges from 0 ("0,3-5"), or "auto": the first
  // block for kinds that iterate, all blocks for others.
  std::string layers = "auto";
  // The kind of the other blocks; "auto": symmetric if keys serve as queries, else softmax.
  std::string other = "auto";
};

// Whether `layers` is valid for a model with `depth` blocks.
bool are_layers(const std::string& layers, int64_t depth);
// Throws Error if it is not, if the kind or an option does not exist, or if the kind cannot be causal.
void check(const AttentionConfig& config, int64_t depth);
// Whether a block runs the kind, and the config of that block's layer.
bool runs_kind(const AttentionConfig& config, int64_t block);
AttentionConfig of_block(const AttentionConfig& config, int64_t block);
// How often a block computes its attention: 1, or the option "iterations" of kinds that iterate.
int64_t iterations_of_block(const AttentionConfig& config, int64_t block);

// KV cache of a layer: keys and values [B, H, capacity, D], of which the first `length` tokens are valid. The
// capacity is at least `tokens`, and doubled where that is too few.
struct AttentionCache {
  int64_t tokens = 0;
  Tensor keys = {}, values = {};
  int64_t length = 0;
};

// What a layer computes of its input, for inspection: f64 on the CPU, f32 on a GPU and in a quantised model,
// where they are the rounded ones. No autograd.
struct AttentionTensors {
  Tensor queries, keys;           // [B, H, N, D], see AttentionKind::queries_and_keys
  Tensor own_keys, own_values;    // k and v themselves
  Tensor values;                  // [B, H, N, D], that are mixed
  Tensor probabilities, weights;  // [B, H, N, N], and what values are mixed by, which clipped softmax clips
  Tensor mixed;                   // [B, H, N, D], the output before the projection
  Tensor output;                  // [B, N, dim], after it, without the residual
  std::vector<PursuitStep> pursuit;  // of kinds that iterate
  Tensor subtracted;                 // [B, H, N, N], of Scaled Attention
};

// Multi-head self-attention with timm's names: `qkv` [parts * dim, dim] with rows in the order q, k, v (k, v
// if keys serve as queries), `proj` [dim, dim], and the parameters of the kind. With queries_apart `qkv` is
// named `kv`, has the rows k, v, and `q` is beside it unless keys serve as queries.
class Attention : public Callable<Attention> {
 public:
  // Runs config.kind. `tokens`: the sequence length, for kinds that need a fixed one.
  Attention(int64_t dim, int64_t heads, const AttentionConfig& config, int64_t tokens = 0);
  // residual + proj(attention(qkv(x))) for x [B, N, dim]; the residual has x's shape or is undefined. Dropout
  // applies to the attention probabilities, which are then stored, [B, H, N, N].
  Tensor forward(const Tensor& x, const Tensor& residual = {}, const Dropout& dropout = {}) const;

  // The same for tokens x [B, M, dim] that follow those in the cache, to which it adds them. No autograd.
  // Only for kinds with has_cache. In a quantised model x is on the grid of `of_x`.
  Tensor forward_cached(const Tensor& x, AttentionCache& cache, const Quantizer* of_x = nullptr) const;
  bool has_cache() const { return config_.causal && traits_.has_cache; }

  // Of a quantised model, without the residual: x is on the grid of `of_x`. Kinds that are no softmax of
  // scores mix rounded queries, keys and values in floating point.
  Tensor quantized(const Tensor& x, const Quantizer& of_x) const;

  // Attention probabilities of the first `queries` tokens (default: all), [B, H, queries, N], see
  // AttentionKind. No autograd.
  Tensor probabilities(const Tensor& x, int64_t queries = -1) const;
  // The weights by which they mix values: probabilities but for clipped softmax.
  Tensor weights(const Tensor& x, int64_t queries = -1) const;

  AttentionTensors tensors(const Tensor& x) const;

  // The rows of `qkv` that produce each head's queries and keys, [H, D, dim], with autograd; the same rows if
  // keys serve as queries. W_QK = W_Q^T W_K.
  Tensor query_weights() const;
  Tensor key_weights() const;

  const AttentionConfig& config() const { return config_; }
  const KindTraits& traits() const { return traits_; }
  int64_t heads() const { return heads_; }
  Linear qkv, proj;

 private:
  Tensor project(const Tensor& x) const;
  std::optional<Linear> q_;                         // with queries_apart
  Tensor packed_of(const Tensor& projected) const;  // [B, N, parts * dim] to [B, N, parts, H, D]
  // Of a quantised model: q, k and v [B, H, N, D] on their grids, and packed again; the softmax of the rounded
  // scores of q [B, H, M, D]; the same clipped and rounded, which mixes values; what follows the mixture
  // [B, N, H * D].
  std::array<Tensor, 3> rounded_parts(const Tensor& packed) const;
  Tensor rounded(const Tensor& packed) const;
  Tensor softmax_of_scores(const Tensor& q, const Tensor& k) const;
  Tensor rounded_weights(const Tensor& q, const Tensor& k) const;
  Tensor quantized_end(const Tensor& mixed, const Tensor& x) const;
  int64_t dim_, heads_;
  AttentionConfig config_;
  KindTraits traits_;
  std::unique_ptr<AttentionKind> kind_;
  AttentionQuantizers quantizers_;
};

}  // namespace pursuit::nn
