#include "nn/segmenter.h"

#include "engine/ops.h"

namespace pursuit::nn {

namespace {

constexpr double decoder_ln_eps = 1e-5;  // PyTorch's default, as in the official code

VitConfig without_head(VitConfig config) {
  config.classes = 0;
  return config;
}

VitConfig decoder_blocks(const SegmenterConfig& c) {
  VitConfig blocks = c.encoder;
  blocks.depth = c.decoder_depth;
  blocks.extra_tokens = c.encoder.classes;
  blocks.ln_eps = decoder_ln_eps;
  blocks.branch_dropout = c.decoder_dropout;
  blocks.attention_dropout = c.decoder_attention_dropout;
  blocks.activation_dropout = c.decoder_activation_dropout;
  blocks.drop_path = 0;
  if (!c.decoder_iterates && attention_kind(blocks.attention.kind).traits.iterates)
    blocks.attention.layers = "none";
  return blocks;
}

// x / |x| over the last dimension, computed in f32 for bf16. The small term keeps the gradient finite at 0.
Tensor normalised(const Tensor& x) {
  const Tensor wide = x.to(compute_type(x.dtype()));
  return (wide / sqrt(sum(square(wide), {-1}, true) + 1e-12)).to(x.dtype());
}

// The side of the square patch grid of position embeddings [1, 1 + side * side, dim].
int64_t square_side(const Tensor& positions, const std::string& source) {
  int64_t side = 0;
  if (positions.ndim() == 3 && positions.size(0) == 1)
    while (1 + side * side < positions.size(1)) ++side;
  if (side == 0 || 1 + side * side != positions.size(1))
    fail("segmenter", source + ": pos_embed is " + positions.str() +
                          ", need [1, 1 + side * side, dim], the positions of a square grid of patches");
  return side;
}

}  // namespace

class Segmenter::MaskTransformer : public Callable<MaskTransformer> {
 public:
  explicit MaskTransformer(const SegmenterConfig& c)
      : proj_dec_(c.encoder.dim, c.encoder.dim),
        decoder_norm_(c.encoder.dim, decoder_ln_eps),
        mask_norm_(c.encoder.classes, decoder_ln_eps) {
    const int64_t dim = c.encoder.dim;
    add_parameter("cls_emb", cls_emb_, {1, c.encoder.classes, dim}, {Role::embedding});
    add_parameter("proj_patch", proj_patch_, {dim, dim}, {Role::projection, dim});
    add_parameter("proj_classes", proj_classes_, {dim, dim}, {Role::projection, dim});
    add_module("proj_dec", proj_dec_);
    const VitConfig blocks = decoder_blocks(c);
    for (int i = 0; i < int(c.decoder_depth); ++i) {
      blocks_.push_back(std::make_unique<VitBlock>(blocks, i));
      add_module("blocks." + std::to_string(i), *blocks_.back());
    }
    add_module("decoder_norm", decoder_norm_);
    add_module("mask_norm", mask_norm_);
  }

  // patches [B, N, dim] to logits [B, N, classes].
  Tensor forward(const Tensor& patches, const Generator& generator) const {
    const DType dtype = patches.dtype(), stream = compute_type(dtype);
    const int64_t batch = patches.size(0), n = patches.size(1), classes = cls_emb_.size(1);
    const Tensor of_classes = cls_emb_.to(stream).expand({batch, classes, cls_emb_.size(2)});
    ResidualStream tokens = concat({proj_dec_(patches).to(stream), of_classes}, 1);
    for (size_t i = 0; i < blocks_.size(); ++i) tokens = (*blocks_[i])(tokens, dtype, generator.ahead(2 * i));
    const Tensor x = tokens.sum_and_norm(decoder_norm_, dtype).norm;
    const Tensor patch = matmul(x.slice(1, 0, n), proj_patch_.to(dtype));
    const Tensor of_class = matmul(x.slice(1, n, n + classes), proj_classes_.to(dtype));
    const Tensor masks = matmul(normalised(patch), normalised(of_class).transpose(-1, -2));
    return mask_norm_(masks, dtype);
  }

 private:
  Tensor cls_emb_, proj_patch_, proj_classes_;
  Linear proj_dec_;
  std::vector<std::unique_ptr<VitBlock>> blocks_;
  LayerNorm decoder_norm_, mask_norm_;
};

Segmenter::Segmenter(const SegmenterConfig& config)
    : config_(config), encoder_(without_head(config.encoder)) {
  if (config.encoder.classes < 1) fail("segmenter", "classes must be at least 1");
  if (config.decoder == SegmenterDecoder::mask && config.decoder_depth < 1)
    fail("segmenter", "the mask decoder needs at least 1 block");
  add_module("encoder", encoder_);
  if (config.decoder == SegmenterDecoder::linear) {
    add_module("decoder.head", linear_.emplace(config.encoder.dim, config.encoder.classes));
  } else {
    mask_ = std::make_unique<MaskTransformer>(config);
    add_module("decoder", *mask_);
  }
}

Segmenter::~Segmenter() = default;

Tensor Segmenter::forward(const Tensor& images) const {
  const Tensor tokens = encoder_.features(images);
  const Tensor patches = tokens.slice(1, 1, tokens.size(1));
  const Tensor logits =
      linear_ ? (*linear_)(patches) : (*mask_)(patches, encoder_.generator().ahead(streams::step::decoder));
  const auto [rows, cols] = encoder_.grid_of(images);
  return logits.transpose(1, 2).reshape({images.size(0), config_.encoder.classes, rows, cols});
}

void Segmenter::set_step(uint64_t seed, uint64_t step, uint64_t batch) {
  encoder_.set_step(seed, step, batch);
}

void Segmenter::load_encoder(const std::map<std::string, Tensor>& weights, const std::string& source) {
  for (const NamedTensor& p : encoder_.parameters()) {
    const auto found = weights.find(p.name);
    if (found == weights.end())
      fail("segmenter",
           source + " has no " + p.name + ": the encoder's sizes and attention must be the same");
    Tensor value = found->second;
    if (p.name == "pos_embed") {
      const int64_t side = square_side(value, source);
      NoGrad off;
      value = resize_positions(value, side, side, config_.encoder.rows(), config_.encoder.cols());
    }
    if (value.shape() != p.tensor->shape())
      fail("segmenter", source + ": " + p.name + " is " + value.str() + ", need " + p.tensor->shape().str());
    copy_values(*p.tensor, value);
  }
}

}  // namespace pursuit::nn
