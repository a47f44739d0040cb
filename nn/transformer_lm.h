#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "nn/adaptive_softmax.h"
#include "nn/attention/attention.h"
#include "nn/generator.h"
#include "nn/init.h"
#include "nn/layers.h"
#include "nn/lookups.h"
#include "nn/quantization/config.h"

namespace pursuit::nn {

// Position encodings. Sinusoids are added as [sin | cos] halves of dim / 2 frequencies.
enum class Positions {
  sinusoidal,  // position t = 0, 1, ...; frequencies 10000^(-2 i / dim)
  reversed,    // t = context - 1, context - 2, ...: a whole window's last token has t = 0 (Transformer-XL)
  fairseq,     // t = 2, 3, ...; frequencies 10000^(-i / (dim / 2 - 1))
  learned      // pos_embed [context, dim]
};
inline std::vector<Choice<Positions>> choices_of(Positions) {
  return {{"learned", Positions::learned},
          {"sinusoidal", Positions::sinusoidal},
          {"reversed", Positions::reversed, "sinusoidal, from the window's end"},
          {"fairseq", Positions::fairseq}};
}

// Defaults follow the published language model (Teo & Nguyen 2024, after Schlag et al. 2021), except for its
// attention, its adaptive softmax with biases and its additional dropout. Complete models are recipes of
// `lm`.
struct LmConfig {
  int64_t vocab = 0;
  int64_t context = 256;  // maximum window length in tokens
  int64_t dim = 128, depth = 16, heads = 8, hidden = 2048;
  Activation activation = Activation::relu;
  bool pre_norm = false;  // norms inside the residual branches plus a final one; false: after every sum
  double ln_eps = 1e-5;
  AttentionConfig attention;  // causal or not, as the model
  bool causal = true;         // false: every token sees the whole window
  Positions positions = Positions::reversed;
  bool scale_embedding = true;                        // multiply token embeddings by sqrt(dim)
  double dropout = 0.1;                               // of the embedded tokens and of every branch
  double activation_dropout = 0, output_dropout = 0;  // of the MLP's hidden units; of the final features
  bool tied = true;                                   // the output layer shares the embedding's weights
  bool output_bias = false;                           // one per word, and per cluster of an adaptive softmax
  std::vector<int64_t> cutoffs;  // of an adaptive softmax; empty: a softmax over all words
  double div_value = 4;          // of an untied adaptive softmax
  Init init = Init::transformer_xl;
  std::optional<QuantizationConfig> quantization = {};  // makes a quantised model, see nn/quantization
};

class LmBlock : public Callable<LmBlock> {
 public:
  LmBlock(const LmConfig& config, int index);
  // x is the residual stream; the layers compute in `dtype`. With a cache, x holds the tokens that follow
  // those in it.
  Tensor forward(const Tensor& x, DType dtype, const Generator& generator,
                 AttentionCache* cache = nullptr) const;
  // The input of the attention, computed from the residual stream.
  Tensor attention_input(const Tensor& x, DType dtype) const;
  // Of a quantised model: what rounds the residual stream that goes into this block.
  void set_input(const Quantizer& of_stream) { of_stream_ = &of_stream; }

  Attention attn;
  LayerNorm norm1;
  Mlp mlp;
  LayerNorm norm2;
  Quantizer attn_sum, mlp_sum;  // of the residual stream after each branch

 private:
  Tensor quantized(const Tensor& x, AttentionCache* cache) const;

  bool pre_norm_;
  double dropout_, activation_dropout_;
  const Quantizer* of_stream_ = nullptr;
};

// State of the tokens read so far, for incremental decoding.
struct LmCache {
  int64_t length = 0;
  std::vector<AttentionCache> layers;
};

// A decoder, or an encoder if it is not causal: embedding, blocks of attention and MLP, output layer.
// Parameters: embed.weight [vocab, dim], pos_embed (learned positions), blocks.i.{attn.qkv, attn.proj, norm1,
// mlp.fc1, mlp.fc2, norm2}, norm (pre-norm), and output.* (nn/adaptive_softmax.h). Ids and labels are integers
// [B, T] on the parameters' device, T at most the context. Computes in f32 until set_dtype; under bf16 the
// residual stream stays f32.
class TransformerLm : public Module {
 public:
  explicit TransformerLm(const LmConfig& config);

  // Mean of -log p(label) over the labels that are not -1; labels[b, t] is the word after ids[b, 0 ... t], or
  // the word at t where the model is not causal.
  Tensor loss(const Tensor& ids, const Tensor& labels) const;
  // log p(label) [B, T], 0 where the label is -1. No autograd.
  Tensor log_prob_of(const Tensor& ids, const Tensor& labels) const;
  // Logits of the word after the last token, as log p, [B, vocab]. No autograd.
  Tensor next_logits(const Tensor& ids) const;
  // The same for ids [B, T] that follow those in the cache, to which they are added. Throws beyond the
  // context, and if has_cache() is false: for kinds that iterate.
  Tensor next_logits(const Tensor& ids, LmCache& cache) const;
  bool has_cache() const;

  // The input of the output layer, [B, T, dim].
  Tensor features(const Tensor& ids) const;
  // Attention entropy per layer and head: the mean over sequences and queries of -sum_j p_j log p_j in nats,
  // [depth, heads]. No autograd.
  Tensor attention_entropy(const Tensor& ids) const;

  const Attention& attention(int layer) const;

  // Sets seed, training step and batch within the step. Dropout depends only on these and on a token's place
  // in the batch.
  void set_step(uint64_t seed, uint64_t step, uint64_t batch = 0) {
    generator_.set_step(seed, step, batch, embed_weight.device());
    lookups_.set_batch(int64_t(batch));
  }
  // Keeps lookup gradients separate if the output layer shares the embedding: this rank has `batches` batches
  // per step of `tokens` tokens, with at most `words` distinct ones, and so have the others; see
  // Lookups::keep_apart. Call it after to(device).
  void keep_lookups_apart(int64_t tokens, int64_t words, int64_t batches, int64_t ranks) {
    if (config_.tied) lookups_.keep_apart(embed_weight, tokens, words, batches, ranks);
  }
  void set_dtype(DType dtype) { dtype_ = dtype; }

  const LmConfig& config() const { return config_; }
  Tensor embed_weight, pos_embed;

 private:
  void on_quantize() override;
  Tensor word_rows(const Tensor& ids, DType stream) const;
  Tensor embed(const Tensor& ids, int64_t first) const;
  Tensor some_features(const Tensor& ids) const;  // of ids that go through the layers together
  // What the output layer reads, and in a quantised model what rounds it.
  Tensor final_features(const Tensor& x) const;
  const Quantizer& of_features() const;
  Tensor log_prob_after(const Tensor& x) const;

  LmConfig config_;
  DType dtype_ = DType::f32;
  std::vector<std::unique_ptr<LmBlock>> blocks_;
  std::unique_ptr<LayerNorm> norm_;
  std::unique_ptr<AdaptiveSoftmax> output_;
  Quantizer embedding_;       // of words and positions
  Tensor embed_scale_;        // of a quantised embed_weight
  Lookups lookups_;           // of embed_weight
  mutable Tensor sinusoids_;  // [context, dim] on the ids' device; made at the first call
  Generator generator_;
};

}  // namespace pursuit::nn
