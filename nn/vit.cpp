#include "nn/vit.h"

#include "engine/ops.h"

namespace pursuit::nn {

namespace {

const VitConfig& checked(const VitConfig& c) {
  for (int64_t side : {c.image, c.width})
    if (c.patch < 1 || side % c.patch)
      fail("vit", "an image of " + std::to_string(side) + " pixels does not divide into patches of " +
                      std::to_string(c.patch));
  if (c.depth < 1 || c.dim < 1 || c.classes < 0 || c.channels < 1 || c.image < 1)
    fail("vit", "depth, dim, image and channels must be at least 1, classes at least 0");
  check(c.attention, c.depth);
  return c;
}

}  // namespace

VitBlock::VitBlock(const VitConfig& config, int index)
    : norm1(config.dim, config.ln_eps),
      attn(config.dim, config.heads, of_block(config.attention, index), config.tokens()),
      norm2(config.dim, config.ln_eps),
      mlp(config.dim, config.hidden()),
      dropout_(config.branch_dropout),
      attention_dropout_(config.attention_dropout),
      activation_dropout_(config.activation_dropout),
      drop_path_(config.depth > 1 ? config.drop_path * index / double(config.depth - 1) : 0) {
  add_module("norm1", norm1);
  add_module("attn", attn);
  add_module("norm2", norm2);
  add_module("mlp", mlp);
}

Tensor VitBlock::forward(const Tensor& x, DType dtype, const Generator& generator) const {
  const double on = training() ? 1 : 0;
  const Dropout of_attention = generator.dropout(on * attention_dropout_, streams::step::attention, 0),
                of_activation = generator.dropout(on * activation_dropout_, streams::step::activation, 1);
  // stream + branch. If nothing is dropped, the last product of the branch adds the stream itself.
  const auto add = [&](const Tensor& stream, uint64_t number, const auto& branch) -> Tensor {
    if (!training() || (drop_path_ == 0 && dropout_ == 0)) return branch(stream);
    const Tensor kept = generator.dropout(dropout_, streams::step::dropout, number)(branch(Tensor()));
    return pursuit::drop_path(kept, drop_path_, generator.seed,
                              generator.of(streams::step::drop_path, number), generator.counter, stream);
  };
  const Tensor y =
      add(x, 0, [&](const Tensor& residual) { return attn(norm1(x, dtype), residual, of_attention); });
  return add(y, 1, [&](const Tensor& residual) { return mlp(norm2(y, dtype), residual, of_activation); });
}

VisionTransformer::VisionTransformer(const VitConfig& config)
    : config_(checked(config)),
      patch_(config.channels, config.patch, config.dim),
      norm_(config.dim, config.ln_eps) {
  add_parameter("cls_token", cls_token, {1, 1, config.dim}, {Role::embedding});
  add_parameter("pos_embed", pos_embed, {1, config.tokens(), config.dim}, {Role::embedding});
  add_module("patch_embed.proj", patch_);
  for (int i = 0; i < int(config.depth); ++i) {
    blocks_.push_back(std::make_unique<VitBlock>(config, i));
    add_module("blocks." + std::to_string(i), *blocks_.back());
  }
  add_module("norm", norm_);
  if (config.classes > 0) add_module("head", head_.emplace(config.dim, config.classes));
}

Tensor VisionTransformer::embed(const Tensor& images) const {
  const VitConfig& c = config_;
  if (images.ndim() != 4 || images.size(1) != c.channels || images.size(2) < c.patch ||
      images.size(2) % c.patch || images.size(3) < c.patch || images.size(3) % c.patch)
    fail("vit", "got images " + images.str() + ", need [B, " + std::to_string(c.channels) +
                    ", H, W] with sides that are multiples of " + std::to_string(c.patch));
  const DType stream = compute_type(images.dtype());
  const Tensor tokens = patch_(images).to(stream);
  const Tensor first = cls_token.to(stream).expand({images.size(0), 1, c.dim});
  const Tensor positions = resize_positions(pos_embed.to(stream), c.rows(), c.cols(),
                                            images.size(2) / c.patch, images.size(3) / c.patch);
  const Tensor x = concat({first, tokens}, 1) + positions;
  return generator_.dropout(training() ? c.dropout : 0, streams::step::embedding)(x);
}

void VisionTransformer::check_size(const Tensor& images) const {
  const VitConfig& c = config_;
  const int64_t height = c.rows() * c.patch, width = c.cols() * c.patch;
  if (images.ndim() != 4 || images.size(2) != height || images.size(3) != width)
    fail("vit", "got images " + images.str() + ", need " +
                    Shape{images.ndim() ? images.size(0) : 0, c.channels, height, width}.str());
}

Tensor VisionTransformer::features(const Tensor& images) const {
  Tensor x = embed(images);
  for (size_t i = 0; i < blocks_.size(); ++i) x = (*blocks_[i])(x, images.dtype(), generator_.ahead(2 * i));
  return norm_(x, images.dtype());
}

Tensor VisionTransformer::forward(const Tensor& images) const {
  if (!head_) fail("vit", "a model without classes gives features, not logits");
  check_size(images);
  Tensor x = embed(images);
  for (size_t i = 0; i < blocks_.size(); ++i) x = (*blocks_[i])(x, images.dtype(), generator_.ahead(2 * i));
  // The norm acts per token, so it is computed for the class token only.
  return (*head_)(norm_(x.select(1, 0), images.dtype()));
}

Tensor VisionTransformer::class_attention(const Tensor& images, int block) const {
  NoGrad off;
  const int at = block < 0 ? block + int(config_.depth) : block;
  if (at < 0 || at >= int(config_.depth))
    fail("vit",
         "block " + std::to_string(block) + " of a model with " + std::to_string(config_.depth) + " blocks");
  check_size(images);
  Tensor x = embed(images);
  for (int i = 0; i < at; ++i) x = (*blocks_[size_t(i)])(x, images.dtype(), Generator());
  const VitBlock& b = *blocks_[size_t(at)];
  const Tensor p = b.attn.probabilities(b.norm1(x, images.dtype()), 1);
  return p.select(2, 0);
}

Tensor resize_positions(const Tensor& pos_embed, int64_t from_rows, int64_t from_cols, int64_t rows,
                        int64_t cols) {
  if (pos_embed.ndim() != 3 || pos_embed.size(1) != 1 + from_rows * from_cols)
    fail("vit", "got positions " + pos_embed.str() + ", need [1, 1 + " + std::to_string(from_rows) + " * " +
                    std::to_string(from_cols) + ", dim]");
  if (rows == from_rows && cols == from_cols) return pos_embed;
  const int64_t dim = pos_embed.size(2);
  const Tensor grid = pos_embed.slice(1, 1, pos_embed.size(1)).reshape({1, from_rows, from_cols, dim});
  const Tensor resized = upsample_bilinear(grid.permute({0, 3, 1, 2}), rows, cols);
  return concat({pos_embed.slice(1, 0, 1), resized.permute({0, 2, 3, 1}).reshape({1, rows * cols, dim})}, 1);
}

}  // namespace pursuit::nn
