#include "nn/fan.h"

#include <cmath>
#include <numbers>

#include "engine/core/shapes_only.h"
#include "engine/ops.h"
#include "nn/attention/functions.h"

namespace pursuit::nn {

namespace {

constexpr int64_t frequencies = 16;

const FanConfig& checked(const FanConfig& c) {
  if (c.patch != 4 && c.patch != 8 && c.patch != 16)
    fail("fan", "patches are of " + std::to_string(c.patch) + " pixels, need 4, 8 or 16");
  if (c.image < 1 || c.image % c.patch)
    fail("fan", "an image of " + std::to_string(c.image) + " pixels does not divide into patches of " +
                    std::to_string(c.patch));
  if (c.dim < 8 || c.dim % 8) fail("fan", "width is " + std::to_string(c.dim) + ", need a multiple of 8");
  if (c.depth < 1 || c.class_depth < 1 || c.hidden() < 1 || c.classes < 1 || c.channels < 1)
    fail("fan", "depth, class_depth, hidden width, classes and channels must be at least 1");
  check(c.attention, c.depth);
  return c;
}

AttentionConfig attention_of(const FanConfig& c, int64_t block) {
  AttentionConfig own = of_block(c.attention, block);
  own.queries_apart = true;
  return own;
}

// [B, rows * cols, C] to [B, C, rows, cols] and back.
Tensor to_maps(const Tensor& tokens, int64_t rows) {
  return tokens.transpose(1, 2).reshape({tokens.size(0), tokens.size(2), rows, tokens.size(1) / rows});
}
Tensor to_tokens(const Tensor& maps) {
  return maps.permute({0, 2, 3, 1}).reshape({maps.size(0), maps.size(2) * maps.size(3), maps.size(1)});
}

// x + gamma branch, the product in the residual stream's dtype.
Tensor add_scaled(const Tensor& x, const Tensor& gamma, const Tensor& branch, const Dropout& path = {}) {
  return ResidualStream(x, branch * gamma.to(x.dtype()), path).sum();
}

// [2 * frequencies, n], see FourierPositions.
Tensor waves_of(int64_t n) {
  // 1e-6 is in the published divisor.
  const Tensor place = (arange(n, DType::f64) + 1.0) * (2 * std::numbers::pi / (double(n) + 1e-6));
  const Tensor rate = exp(arange(frequencies, DType::f64) * (-std::log(1e4) / double(frequencies)));
  const Tensor angle = rate.reshape({frequencies, 1}) * place;
  return stack({sin(angle), cos(angle)}, 1).reshape({2 * frequencies, n});
}

// A 3 x 3 convolution of stride 2 with batch norm.
struct Halving : Sequential {
  Halving(int64_t in, int64_t out) {
    add<Conv2d>(in, out, 3, ConvOptions{.stride = 2, .padding = 1}, false, Role::uniform)
        .add<BatchNorm2d>(out);
  }
};

}  // namespace

FourierPositions::FourierPositions(int64_t dim)
    : token_projection_(4 * frequencies, dim, 1, {}, true, Role::uniform, Role::uniform) {
  add_module("token_projection", token_projection_);
}

Tensor FourierPositions::forward(int64_t rows, int64_t cols, DType dtype) const {
  const Device device = token_projection_.weight.device();
  const Shape shape = {1, 4 * frequencies, rows, cols};
  Tensor waves = waves_;
  if (!waves.defined() || waves.shape() != shape || waves.dtype() != dtype || waves.device() != device) {
    NoGrad off;
    const Shape half = {2 * frequencies, rows, cols};
    const Tensor down = waves_of(rows).reshape({2 * frequencies, rows, 1}).expand(half),
                 across = waves_of(cols).reshape({2 * frequencies, 1, cols}).expand(half);
    waves = concat({down, across}, 0).reshape(shape).to(dtype).to(device);
    if (!shapes_only()) waves_ = waves;  // made on shapes, it has no values
  }
  return to_tokens(token_projection_(waves));
}

ConvolutionalMlp::ConvolutionalMlp(int64_t dim, int64_t hidden)
    : fc1_(dim, hidden),
      fc2_(hidden, dim, true, Role::mlp_out_weight),
      conv1_(hidden, hidden, 3, {.padding = 1, .groups = hidden}, true, Role::depthwise_weight, Role::bias),
      conv2_(hidden, hidden, 3, {.padding = 1, .groups = hidden}, true, Role::depthwise_weight, Role::bias),
      norm_(hidden) {
  add_parameter("gamma", gamma_, {hidden}, {Role::norm_weight});
  add_module("fc1", fc1_);
  add_module("dwconv.conv1", conv1_);
  add_module("dwconv.bn", norm_);
  add_module("dwconv.conv2", conv2_);
  add_module("fc2", fc2_);
}

Tensor ConvolutionalMlp::forward(const Tensor& x, int64_t rows) const {
  const Tensor h = fc1_(x), mixed = conv2_(norm_(gelu(conv1_(to_maps(h, rows)))));
  return fc2_(h + gamma_.to(h.dtype()) * to_tokens(mixed));
}

// The published norm of the values has PyTorch's epsilon, unlike all others.
ChannelAttention::ChannelAttention(int64_t dim, int64_t heads, int64_t hidden)
    : heads_(heads), mlp_(dim, hidden), norm_(dim, 1e-5), q_(dim, dim) {
  add_parameter("temperature", temperature_, {heads, 1, 1}, {Role::norm_weight});
  add_module("mlp_v", mlp_);
  add_module("norm_v", norm_);
  add_module("q", q_);
}

Tensor ChannelAttention::forward(const Tensor& x, int64_t rows) const {
  const int64_t batch = x.size(0), n = x.size(1), dim = x.size(2);
  const Shape by_head = {batch, heads_, dim / heads_, n};
  const Tensor q = softmax(q_(x).transpose(1, 2)).reshape(by_head);
  const Tensor k = mean(softmax(x.transpose(1, 2)).reshape(by_head), {2}).reshape({batch, heads_, n, 1});
  const Tensor gate = sigmoid(matmul(q, k)) * temperature_.to(x.dtype());
  return norm_(mlp_(x, rows)) * gate.reshape({batch, 1, dim});
}

FanBlock::FanBlock(const FanConfig& c, int64_t index)
    : drop_path_(c.drop_path),
      norm1_(c.dim, c.ln_eps),
      attention_(c.dim, c.heads, attention_of(c, index), c.side() * c.side()),
      norm2_(c.dim, c.ln_eps),
      channels_(c.dim, c.heads, c.hidden()) {
  add_parameter("gamma1", gamma1_, {c.dim}, {Role::norm_weight});
  add_parameter("gamma2", gamma2_, {c.dim}, {Role::norm_weight});
  add_module("norm1", norm1_);
  add_module("attn", attention_);
  add_module("norm2", norm2_);
  add_module("mlp", channels_);
}

Tensor FanBlock::forward(const Tensor& x, int64_t rows, DType dtype, const Generator& generator) const {
  const auto path = [&](uint64_t number) {
    return generator.dropout(training() ? drop_path_ : 0, streams::step::drop_path, number);
  };
  const Tensor y = add_scaled(x, gamma1_, attention_(norm1_(x, dtype)), path(0));
  return add_scaled(y, gamma2_, channels_(norm2_(y, dtype), rows), path(1));
}

ClassAttention::ClassAttention(int64_t dim, int64_t heads, bool shares_queries)
    : heads_(heads),
      k_(dim, dim, true, Role::qkv_weight),
      v_(dim, dim, true, Role::qkv_weight),
      proj_(dim, dim, true, Role::attention_out_weight, Role::attention_out_bias) {
  if (!shares_queries) add_module("q", q_.emplace(dim, dim, true, Role::qkv_weight));
  add_module("k", k_);
  add_module("v", v_);
  add_module("proj", proj_);
}

Tensor ClassAttention::probabilities(const Tensor& x) const {
  const Tensor keys = split_heads(k_(x), heads_);
  const Tensor query = q_ ? split_heads((*q_)(x.slice(1, 0, 1)), heads_) : keys.slice(2, 0, 1);
  return attention_weights(query, keys, 1 / std::sqrt(double(keys.size(3))), false);
}

Tensor ClassAttention::forward(const Tensor& x) const {
  return proj_(merge_heads(matmul(probabilities(x), split_heads(v_(x), heads_))));
}

ClassBlock::ClassBlock(const FanConfig& c)
    : norm1_(c.dim, c.ln_eps),
      attention_(c.dim, c.heads, attention_kind(of_block(c.attention, -1).kind).traits.shares_queries),
      norm2_(c.dim, c.ln_eps),
      mlp_(c.dim, c.hidden()) {
  add_parameter("gamma1", gamma1_, {c.dim}, {Role::norm_weight});
  add_parameter("gamma2", gamma2_, {c.dim}, {Role::norm_weight});
  add_module("norm1", norm1_);
  add_module("attn", attention_);
  add_module("norm2", norm2_);
  add_module("mlp", mlp_);
}

Tensor ClassBlock::probabilities(const Tensor& x, DType dtype) const {
  return attention_.probabilities(norm1_(x, dtype));
}

Tensor ClassBlock::forward(const Tensor& x, DType dtype) const {
  const int64_t n = x.size(1);
  const Tensor normed = norm1_(x), attended = attention_(normed.to(dtype)).to(x.dtype());
  const Tensor y = norm2_(add_scaled(x, gamma1_, concat({attended, normed.slice(1, 1, n)}, 1)));
  const Tensor token = y.slice(1, 0, 1), others = y.slice(1, 1, n);
  return concat({add_scaled(token, gamma2_, mlp_(token.to(dtype))), others * 2.0}, 1);
}

Fan::Fan(const FanConfig& config)
    : config_(checked(config)),
      positions_(config.dim),
      norm_(config.dim, config.ln_eps),
      head_(config.dim, config.classes) {
  const FanConfig& c = config_;
  add_parameter("cls_token", cls_token_, {1, 1, c.dim}, {Role::embedding});
  int64_t in = c.channels;
  for (int64_t share = c.patch == 16 ? 8 : 4; share >= 1; share /= c.patch == 4 ? 4 : 2) {
    if (stem_.size() > 0) stem_.add(gelu);
    stem_.add<Halving>(in, c.dim / share);
    in = c.dim / share;
  }
  add_module("patch_embed.proj", stem_);
  add_module("pos_embed", positions_);
  for (int64_t i = 0; i < c.depth; ++i) {
    blocks_.push_back(std::make_unique<FanBlock>(c, i));
    add_module("blocks." + std::to_string(i), *blocks_.back());
  }
  for (int64_t i = 0; i < c.class_depth; ++i) {
    class_blocks_.push_back(std::make_unique<ClassBlock>(c));
    add_module("cls_attn_blocks." + std::to_string(i), *class_blocks_.back());
  }
  add_module("norm", norm_);
  add_module("head", head_);
}

Tensor Fan::tokens(const Tensor& images) const {
  const FanConfig& c = config_;
  if (images.ndim() != 4 || images.size(1) != c.channels || images.size(2) != c.image ||
      images.size(3) != c.image)
    fail("fan", "got images " + images.str() + ", need " +
                    Shape{images.ndim() ? images.size(0) : 0, c.channels, c.image, c.image}.str());
  const DType stream = compute_type(images.dtype());
  Tensor x = to_tokens(stem_(images)).to(stream) + positions_(c.side(), c.side(), stream);
  x = generator_.dropout(training() ? c.dropout : 0, streams::step::embedding)(x);
  for (size_t i = 0; i < blocks_.size(); ++i)
    x = (*blocks_[i])(x, c.side(), images.dtype(), generator_.ahead(2 * i));
  return concat({cls_token_.to(stream).expand({images.size(0), 1, c.dim}), x}, 1);
}

Tensor Fan::forward(const Tensor& images) const {
  Tensor x = tokens(images);
  for (const auto& block : class_blocks_) x = (*block)(x, images.dtype());
  return head_(norm_(x.select(1, 0), images.dtype()));
}

Tensor Fan::class_attention(const Tensor& images, int block) const {
  NoGrad off;
  const int at = block < 0 ? block + int(config_.class_depth) : block;
  if (at < 0 || at >= int(config_.class_depth))
    fail("fan", "block " + std::to_string(block) + " of " + std::to_string(config_.class_depth) +
                    " with class attention");
  Tensor x = tokens(images);
  for (int i = 0; i < at; ++i) x = (*class_blocks_[size_t(i)])(x, images.dtype());
  return class_blocks_[size_t(at)]->probabilities(x, images.dtype()).select(2, 0);
}

}  // namespace pursuit::nn
