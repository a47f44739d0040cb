#include "nn/transformer_lm.h"

#include <algorithm>
#include <cmath>

#include "engine/core/shapes_only.h"
#include "engine/ops.h"
#include "nn/quantization/weights.h"

namespace pursuit::nn {

namespace {

AttentionConfig attention_of(const LmConfig& c) {
  AttentionConfig config = c.attention;
  config.causal = c.causal;
  return config;
}

const LmConfig& checked(const LmConfig& c) {
  const auto at_least_one = [](const char* what, int64_t n) {
    if (n < 1) fail("lm", std::string(what) + " is " + std::to_string(n) + ", need at least 1");
  };
  at_least_one("vocab", c.vocab);
  at_least_one("context", c.context);
  at_least_one("dim", c.dim);
  at_least_one("depth", c.depth);
  at_least_one("hidden", c.hidden);
  if (c.dim % 2 || (c.positions == Positions::fairseq && c.dim < 4))
    fail("lm", "width " + std::to_string(c.dim) + " does not divide into the halves of sinusoids");
  check(attention_of(c), c.depth);
  return c;
}

// Returns [context, dim]; a window of T tokens uses the first T rows.
Tensor sinusoids(const LmConfig& c) {
  if (shapes_only()) return empty({c.context, c.dim});
  const int64_t half = c.dim / 2;
  const bool fairseq = c.positions == Positions::fairseq;
  std::vector<float> table(size_t(c.context * c.dim));
  for (int64_t row = 0; row < c.context; ++row) {
    const int64_t position = fairseq                              ? row + 2
                             : c.positions == Positions::reversed ? c.context - 1 - row
                                                                  : row;
    for (int64_t i = 0; i < half; ++i) {
      const double angle =
          double(position) * std::pow(10000.0, -double(i) / (fairseq ? double(half - 1) : double(half)));
      table[size_t(row * c.dim + i)] = float(std::sin(angle));
      table[size_t(row * c.dim + half + i)] = float(std::cos(angle));
    }
  }
  return from_vector(table, {c.context, c.dim});
}

}  // namespace

LmBlock::LmBlock(const LmConfig& config, int index)
    : attn(config.dim, config.heads, of_block(attention_of(config), index)),
      norm1(config.dim, config.ln_eps),
      mlp(config.dim, config.hidden, config.activation),
      norm2(config.dim, config.ln_eps),
      pre_norm_(config.pre_norm),
      dropout_(config.dropout),
      activation_dropout_(config.activation_dropout) {
  add_module("attn", attn);
  add_module("norm1", norm1);
  add_module("mlp", mlp);
  add_module("norm2", norm2);
  add_module("attn_sum", attn_sum);
  add_module("mlp_sum", mlp_sum);
}

Tensor LmBlock::attention_input(const Tensor& x, DType dtype) const {
  if (quantization()) return pre_norm_ ? norm1.quantized(x) : x;
  return pre_norm_ ? norm1(x, dtype) : x.to(dtype);
}

Tensor LmBlock::forward(const Tensor& x, DType dtype, const Generator& generator,
                        AttentionCache* cache) const {
  if (quantization()) return quantized(x, cache);
  // stream + dropout(branch). Without dropout, branch(residual) adds the residual itself.
  const auto add = [&](const Tensor& stream, uint64_t number, const auto& branch) -> Tensor {
    if (!training() || dropout_ == 0) return branch(stream);
    return stream + generator.dropout(dropout_, streams::step::dropout, number)(branch(Tensor()));
  };
  const Tensor in = attention_input(x, dtype);
  Tensor y = add(x, 0, [&](const Tensor& residual) {
    if (!cache) return attn(in, residual);
    const Tensor branch = attn.forward_cached(in, *cache);
    return residual.defined() ? residual + branch : branch;
  });
  if (!pre_norm_) y = norm1(y, y.dtype());
  const Tensor between = pre_norm_ ? norm2(y, dtype) : y.to(dtype);
  const Dropout of_hidden =
      generator.dropout(training() ? activation_dropout_ : 0, streams::step::activation, 1);
  const Tensor z = add(y, 1, [&](const Tensor& residual) { return mlp(between, residual, of_hidden); });
  return pre_norm_ ? z : norm2(z, z.dtype());
}

Tensor LmBlock::quantized(const Tensor& x, AttentionCache* cache) const {
  const Tensor in = pre_norm_ ? norm1.quantized(x) : x;
  const Quantizer& of_in = pre_norm_ ? norm1.output : *of_stream_;
  const Tensor mixed = cache ? attn.forward_cached(in, *cache, &of_in) : attn.quantized(in, of_in);
  const Tensor sum = attn_sum(x + mixed), y = pre_norm_ ? sum : norm1.quantized(sum),
               between = pre_norm_ ? norm2.quantized(y) : y;
  const Tensor z = mlp_sum(y + mlp.quantized(between, pre_norm_ ? norm2.output : norm1.output));
  return pre_norm_ ? z : norm2.quantized(z);
}

TransformerLm::TransformerLm(const LmConfig& config) : config_(checked(config)) {
  add_parameter("embed.weight", embed_weight, {config.vocab, config.dim}, {Role::embedding}, &lookups_);
  if (config.positions == Positions::learned)
    add_parameter("pos_embed", pos_embed, {config.context, config.dim}, {Role::embedding});
  for (int i = 0; i < int(config.depth); ++i) {
    blocks_.push_back(std::make_unique<LmBlock>(config, i));
    add_module("blocks." + std::to_string(i), *blocks_.back());
  }
  if (config.pre_norm) {
    norm_ = std::make_unique<LayerNorm>(config.dim, config.ln_eps);
    add_module("norm", *norm_);
  }
  if (config.tied)
    output_ = std::make_unique<AdaptiveSoftmax>(embed_weight, config.cutoffs, config.output_bias);
  else
    output_ = std::make_unique<AdaptiveSoftmax>(config.dim, config.vocab, config.cutoffs, config.div_value,
                                                config.output_bias ? OutputBias::all : OutputBias::none);
  add_module("output", *output_);
  add_module("embedding", embedding_);
  if (config.quantization) quantize(std::make_shared<Quantization>(Quantization{*config.quantization}));
}

void TransformerLm::on_quantize() {
  const bool shares = config_.tied && quantization()->config.float_head;
  if (shares)
    add_buffer("embed.weight_scale", embed_scale_, zeros({config_.vocab}));
  else
    code_parameter("embed.weight", embed_weight, embed_scale_);
  if (pos_embed.defined()) round_parameter(pos_embed);
  for (size_t i = 0; i < blocks_.size(); ++i)
    blocks_[i]->set_input(i == 0 ? embedding_ : blocks_[i - 1]->norm2.output);
  output_->set_input(of_features(), config_.tied && !shares ? &embed_scale_ : nullptr);
}

const Quantizer& TransformerLm::of_features() const {
  return norm_ ? norm_->output : blocks_.back()->norm2.output;
}

Tensor TransformerLm::final_features(const Tensor& x) const {
  if (quantization()) return norm_ ? norm_->quantized(x) : x;
  return norm_ ? (*norm_)(x, dtype_) : x.to(dtype_);
}

Tensor TransformerLm::word_rows(const Tensor& ids, DType stream) const {
  if (!quantization()) return lookups_.rows(ids, embed_weight.to(stream));
  if (embed_weight.dtype() == DType::i8) return dequantized_embedding(ids, embed_weight, embed_scale_);
  // The head shares a floating-point table: its rows are rounded as they are looked up.
  return fake_quantize_rows(embedding(ids, embed_weight), embedding(ids, embed_scale_.reshape({-1, 1})),
                            quantization()->config.weight_bits);
}

Tensor TransformerLm::embed(const Tensor& ids, int64_t first) const {
  const LmConfig& c = config_;
  if (ids.ndim() != 2 || ids.size(1) < 1 || first + ids.size(1) > c.context)
    fail("lm", "got ids " + ids.str() + (first ? " after " + std::to_string(first) + " tokens" : "") +
                   ", need [batch, 1 to " + std::to_string(c.context) + " tokens] in all");
  const DType stream = compute_type(dtype_);
  const Tensor words = word_rows(ids, stream);
  Tensor all = pos_embed;
  if (c.positions != Positions::learned) {
    const bool is_made = sinusoids_.defined() && sinusoids_.device() == ids.device();
    all = is_made ? sinusoids_ : sinusoids(c).to(ids.device());
    if (!shapes_only()) sinusoids_ = all;  // made on shapes, it has no values
  }
  const Tensor places = all.slice(0, first, first + ids.size(1)).to(stream);
  const Tensor x = (c.scale_embedding ? words * std::sqrt(double(c.dim)) : words) + places;
  if (quantization()) return embedding_(x);
  return generator_.dropout(training() ? c.dropout : 0, streams::step::embedding)(x);
}

Tensor TransformerLm::features(const Tensor& ids) const {
  if (quantization() && ids.ndim() == 2)
    return in_parts(*quantization(), ids, ids.size(1),
                    [&](const Tensor& some) { return some_features(some); });
  return some_features(ids);
}

Tensor TransformerLm::some_features(const Tensor& ids) const {
  Tensor x = embed(ids, 0);
  for (size_t i = 0; i < blocks_.size(); ++i) x = (*blocks_[i])(x, dtype_, generator_.ahead(2 * i));
  const Dropout left = generator_.dropout(training() ? config_.output_dropout : 0, streams::step::features);
  return left(final_features(x));
}

Tensor TransformerLm::loss(const Tensor& ids, const Tensor& labels) const {
  require_defined("lm", {&ids, &labels});
  if (labels.shape() != ids.shape()) fail("lm", "got labels " + labels.str() + " for ids " + ids.str());
  return output_->loss(features(ids).reshape({-1, config_.dim}), labels.reshape({-1}));
}

Tensor TransformerLm::log_prob_of(const Tensor& ids, const Tensor& labels) const {
  NoGrad off;
  require_defined("lm", {&ids, &labels});
  if (labels.shape() != ids.shape()) fail("lm", "got labels " + labels.str() + " for ids " + ids.str());
  return output_->target_log_prob(features(ids).reshape({-1, config_.dim}), labels.reshape({-1}))
      .reshape(ids.shape());
}

Tensor TransformerLm::log_prob_after(const Tensor& x) const {
  return output_->log_prob(x.select(1, x.size(1) - 1)).to(compute_type(dtype_));
}

Tensor TransformerLm::next_logits(const Tensor& ids) const {
  NoGrad off;
  return log_prob_after(features(ids));
}

bool TransformerLm::has_cache() const {
  return std::all_of(blocks_.begin(), blocks_.end(), [](const auto& b) { return b->attn.has_cache(); });
}

Tensor TransformerLm::next_logits(const Tensor& ids, LmCache& cache) const {
  if (!has_cache())
    fail("lm", "a model with " + config_.attention.kind +
                   " attention keeps no cache; give next_logits the whole context");
  NoGrad off;
  cache.layers.resize(blocks_.size(), {.tokens = config_.context});
  Tensor x = embed(ids, cache.length);
  for (size_t i = 0; i < blocks_.size(); ++i)
    x = (*blocks_[i])(x, dtype_, generator_.ahead(2 * i), &cache.layers[i]);
  cache.length += ids.size(1);
  const Tensor last = x.slice(1, x.size(1) - 1, x.size(1));
  return log_prob_after(final_features(last));
}

Tensor TransformerLm::attention_entropy(const Tensor& ids) const {
  NoGrad off;
  constexpr double least = 1e-30;  // so that 0 log 0 = 0
  std::vector<Tensor> layers;
  Tensor x = embed(ids, 0);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const LmBlock& block = *blocks_[i];
    const Tensor p = block.attn.probabilities(block.attention_input(x, dtype_)).to(compute_type(dtype_));
    layers.push_back(-mean(sum(p * log(clamp(p, least, INFINITY)), {3}), {0, 2}));
    x = block(x, dtype_, generator_.ahead(2 * i));
  }
  return stack(layers, 0);
}

const Attention& TransformerLm::attention(int layer) const {
  if (layer < 0 || layer >= int(blocks_.size()))
    fail("lm",
         "layer " + std::to_string(layer) + " of a model with " + std::to_string(blocks_.size()) + " blocks");
  return blocks_[size_t(layer)]->attn;
}

}  // namespace pursuit::nn
