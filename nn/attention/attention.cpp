#include "nn/attention/attention.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>
#include <utility>

#include "engine/core/shapes_only.h"
#include "engine/ops.h"
#include "nn/attention/functions.h"
#include "nn/observer.h"

namespace pursuit::nn {

namespace {

// Parses a list of numbers and ranges such as "0,3-5" and calls f(first, last) for each. Returns whether the
// list is valid.
template <class F> bool for_each_range(std::string_view list, F f) {
  while (true) {
    int64_t first = 0, last = 0;
    const char* const end = list.data() + list.size();
    auto at = std::from_chars(list.data(), end, first);
    last = first;
    if (at.ec == std::errc() && at.ptr != end && *at.ptr == '-') at = std::from_chars(at.ptr + 1, end, last);
    if (at.ec != std::errc() || first < 0 || last < first) return false;
    f(first, last);
    if (at.ptr == end) return true;
    if (*at.ptr != ',') return false;
    list.remove_prefix(size_t(at.ptr + 1 - list.data()));
  }
}

// Replaces "auto" by the choice that it stands for.
std::string named_layers(const AttentionConfig& c) {
  if (c.layers != "auto") return c.layers;
  return attention_kind(c.kind).traits.iterates ? "0" : "all";
}

std::string named_other(const AttentionConfig& c) {
  if (c.other != "auto") return c.other;
  return attention_kind(c.kind).traits.shares_queries ? "symmetric" : "softmax";
}

const AttentionConfig& checked(const AttentionConfig& config, int64_t dim, int64_t heads) {
  const KindTraits& traits = attention_kind(config.kind).traits;
  check_kind_options(config.options);
  if (heads < 1 || dim % heads)
    fail("attention",
         "width " + std::to_string(dim) + " does not divide into " + std::to_string(heads) + " heads");
  if (config.causal && !traits.may_be_causal)
    fail("attention", config.kind + " mixes all tokens into each and cannot be causal; use another kind");
  return config;
}

}  // namespace

bool are_layers(const std::string& layers, int64_t depth) {
  if (layers == "auto" || layers == "all" || layers == "none") return true;
  constexpr size_t longest = 4096;  // characters; the list is parsed again for every block
  bool within = layers.size() <= longest;
  return within && for_each_range(layers, [&](int64_t, int64_t last) { within &= last < depth; }) && within;
}

void check(const AttentionConfig& config, int64_t depth) {
  checked(config, 1, 1);
  checked(of_block(config, -1), 1, 1);
  if (!are_layers(config.layers, depth))
    fail("attention", "layers are '" + config.layers + "' of a model with " + std::to_string(depth) +
                          " blocks; need all, none, auto, or their numbers from 0, such as 0,3-5");
}

bool runs_kind(const AttentionConfig& config, int64_t block) {
  const std::string layers = named_layers(config);
  if (layers == "all" || layers == "none") return layers == "all" && block >= 0;
  bool runs = false;
  for_each_range(layers, [&](int64_t first, int64_t last) { runs |= first <= block && block <= last; });
  return runs;
}

AttentionConfig of_block(const AttentionConfig& config, int64_t block) {
  AttentionConfig own = config;
  if (!runs_kind(config, block)) own.kind = named_other(config);
  return own;
}

int64_t iterations_of_block(const AttentionConfig& config, int64_t block) {
  const AttentionConfig own = of_block(config, block);
  if (!attention_kind(own.kind).traits.iterates) return 1;
  const auto given = own.options.find("iterations");
  return std::get<int64_t>(given == own.options.end() ? default_kind_options().at("iterations")
                                                      : given->second);
}

Attention::Attention(int64_t dim, int64_t heads, const AttentionConfig& config, int64_t tokens)
    : qkv(dim, (config.queries_apart || attention_kind(config.kind).traits.shares_queries ? 2 : 3) * dim,
          config.bias, Role::qkv_weight),
      proj(dim, dim, config.bias, Role::attention_out_weight, Role::attention_out_bias),
      dim_(dim),
      heads_(heads),
      config_(checked(config, dim, heads)),
      traits_(attention_kind(config.kind).traits),
      kind_(attention_kind(config.kind).make({dim, heads, tokens, config.causal}, config.options)),
      quantizers_(!traits_.shares_queries, kind_->softmax_options().has_value()) {
  add_module("", *kind_);
  if (config.queries_apart && !traits_.shares_queries)
    add_module("q", q_.emplace(dim, dim, config.bias, Role::qkv_weight));
  add_module(config.queries_apart ? "kv" : "qkv", qkv);
  add_module("proj", proj);
  add_module("", quantizers_);
}

Tensor Attention::packed_of(const Tensor& projected) const {
  return projected.reshape(
      {projected.size(0), projected.size(1), projected.size(2) / dim_, heads_, dim_ / heads_});
}

Tensor Attention::project(const Tensor& x) const {
  if (x.ndim() != 3 || x.size(2) != dim_)
    fail("attention", "got " + x.str() + ", need [batch, tokens, " + std::to_string(dim_) + "]");
  if (!q_) return packed_of(qkv(x));
  const auto joined = [&](const Tensor& first, const Tensor& second) {
    return second.defined() ? concat({first.to(x.dtype()), second.to(x.dtype())}, 0) : Tensor();
  };
  return packed_of(linear(x, joined(q_->weight, qkv.weight), joined(q_->bias, qkv.bias)));
}

Tensor Attention::forward(const Tensor& x, const Tensor& residual, const Dropout& dropout) const {
  Observer<Attention>::show(*this, [&] { return x; });
  const Tensor packed = project(x);
  if (dropout.rate == 0) return proj(kind_->mix(packed, x), residual);
  const Tensor values = kind_->values(packed), p = kind_->probabilities(packed, x.size(1));
  return proj(merge_heads(kind_->mix_by(p, values, x, dropout)), residual);
}

Tensor Attention::forward_cached(const Tensor& x, AttentionCache& cache, const Quantizer* of_x) const {
  if (!has_cache())
    fail("attention", std::string("there is no key/value cache for ") +
                          (config_.causal ? "" : "non-causal ") + config_.kind +
                          " attention; run the whole context");
  NoGrad off;
  const Tensor packed = of_x ? packed_of(qkv.quantized(x, *of_x)) : project(x);
  const auto [q, k, v] = rounded_parts(packed);
  const int64_t before = cache.length, length = before + x.size(1), head_dim = dim_ / heads_;
  const auto with = [&](Tensor& all, const Tensor& further) {
    // A copy of the cache may hold the same tensor: it keeps its own words.
    if (!all.defined() || all.size(2) < length || all.storage().use_count() > 1) {
      const Tensor roomy =
          empty({x.size(0), heads_, std::max(cache.tokens, before ? 2 * length : length), head_dim},
                x.dtype(), x.device());
      if (before) copy_values(roomy.slice(2, 0, before), all.slice(2, 0, before));
      all = roomy;
    }
    copy_values(all.slice(2, before, length), further);
    return all.slice(2, 0, length);
  };
  const Tensor keys = with(cache.keys, k), values = with(cache.values, v);
  cache.length = length;
  if (of_x) return quantized_end(merge_heads(matmul(rounded_weights(q, keys), values)), x);
  const Tensor p = attention_weights(q, keys, 1 / std::sqrt(double(head_dim)), true);
  return proj(merge_heads(kind_->mix_by(p, values, x, {})));
}

Tensor Attention::probabilities(const Tensor& x, int64_t queries) const {
  NoGrad off;
  const int64_t rows = queries < 0 ? x.size(1) : queries;
  const Tensor packed = project(x.detach());
  if (!quantization() || !kind_->softmax_options()) return kind_->probabilities(packed, rows);
  const auto [q, k, v] = rounded_parts(packed);
  return softmax_of_scores(q, k).slice(2, 0, rows);
}

Tensor Attention::weights(const Tensor& x, int64_t queries) const {
  const NoGrad off;
  return kind_->weights(probabilities(x, queries));
}

AttentionTensors Attention::tensors(const Tensor& x) const {
  NoGrad off;
  const DType wide = quantization() || x.device().is_cuda() ? DType::f32 : DType::f64;
  const Tensor projected = project(x.detach()).to(wide), input = x.detach().to(wide);
  const Tensor packed = quantization() ? rounded(projected) : projected;
  AttentionTensors t;
  std::tie(t.queries, t.keys) = kind_->queries_and_keys(packed);
  t.own_keys = part(packed, -2);
  t.own_values = part(packed, -1);
  t.values = kind_->values(packed);
  if (quantization() && kind_->softmax_options()) {
    t.probabilities = softmax_of_scores(t.queries, t.keys);
    t.weights = rounded_weights(t.queries, t.keys);
    t.mixed = kind_->gated(merge_heads(matmul(t.weights, t.values)), input);
  } else {
    t.probabilities = kind_->probabilities(packed, x.size(1));
    t.weights = kind_->weights(t.probabilities);
    t.mixed = kind_->mix(packed, input);
  }
  if (quantization()) t.mixed = quantizers_.context(t.mixed);
  t.output =
      quantization() ? proj.quantized(t.mixed, quantizers_.context, &quantizers_.output) : proj(t.mixed);
  t.mixed = split_heads(t.mixed, heads_);
  t.pursuit = kind_->pursuit(packed);
  t.subtracted = kind_->subtracted(packed);
  return t;
}

Tensor Attention::query_weights() const {
  return (q_ ? q_->weight : qkv.float_weight()).slice(0, 0, dim_).reshape({heads_, dim_ / heads_, dim_});
}

Tensor Attention::key_weights() const {
  const int64_t first = qkv.weight.size(0) - 2 * dim_;
  return qkv.float_weight().slice(0, first, first + dim_).reshape({heads_, dim_ / heads_, dim_});
}

}  // namespace pursuit::nn
