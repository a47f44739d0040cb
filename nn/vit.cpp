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
  add_module("attn_sum", attn_sum);
  add_module("mlp_sum", mlp_sum);
}

Tensor VitBlock::quantized(const Tensor& x) const {
  const Tensor y = attn_sum(x + attn.quantized(norm1.quantized(x), norm1.output));
  return mlp_sum(y + mlp.quantized(norm2.quantized(y), norm2.output));
}

ResidualStream VitBlock::forward(const ResidualStream& x, DType dtype, const Generator& generator) const {
  if (quantization()) return quantized(x.sum());
  const double on = training() ? 1 : 0;
  const Dropout of_attention = generator.dropout(on * attention_dropout_, streams::step::attention, 0),
                of_activation = generator.dropout(on * activation_dropout_, streams::step::activation, 1);
  // stream + the branch of its norm. The branch's last product adds the stream itself where nothing is
  // dropped, except in training on a GPU: a result in a narrower dtype costs as much there as the norm then
  // saves.
  const auto add = [&](const ResidualStream& before, const LayerNorm& norm, uint64_t number,
                       const auto& branch) -> ResidualStream {
    const auto [stream, normed] = before.sum_and_norm(norm, dtype);
    const bool narrow_on_gpu = stream.device().is_cuda() && stream.dtype() != dtype;
    if (!training() || (drop_path_ == 0 && dropout_ == 0 && !narrow_on_gpu)) return branch(normed, stream);
    const Tensor kept = generator.dropout(dropout_, streams::step::dropout, number)(branch(normed, Tensor()));
    return {stream, kept, generator.dropout(drop_path_, streams::step::drop_path, number)};
  };
  const ResidualStream y = add(x, norm1, 0, [&](const Tensor& normed, const Tensor& residual) {
    return attn(normed, residual, of_attention);
  });
  // Where the attention's branch is still open, the MLP is left open too: the kernel of the next norm makes both.
  if (y.branch.defined() && dropout_ == 0 && of_activation.rate == 0)
    return {
        y.x, y.branch, y.path,
        ResidualStream::OpenMlp{&norm2, &mlp, generator.dropout(drop_path_, streams::step::drop_path, 1)}};
  return add(y, norm2, 1, [&](const Tensor& normed, const Tensor& residual) {
    return mlp(normed, residual, of_activation);
  });
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
  add_module("embedding", embedding_);
  if (config.quantization) quantize(std::make_shared<Quantization>(Quantization{*config.quantization}));
}

void VisionTransformer::on_quantize() {
  round_parameter(cls_token);
  round_parameter(pos_embed);
  if (head_ && quantization()->config.float_head) head_->stay_float();
}

std::array<int64_t, 2> VisionTransformer::grid_of(const Tensor& images) const {
  const VitConfig& c = config_;
  const int64_t patches = c.rows() * c.cols(), length = c.channels * c.patch * c.patch;
  if (images.ndim() == 3 && images.size(1) == patches && images.size(2) == length)
    return {c.rows(), c.cols()};
  if (images.ndim() != 4 || images.size(1) != c.channels || images.size(2) < c.patch ||
      images.size(2) % c.patch || images.size(3) < c.patch || images.size(3) % c.patch)
    fail("vit", "got images " + images.str() + ", need [B, " + std::to_string(c.channels) +
                    ", H, W] with sides that are multiples of " + std::to_string(c.patch) +
                    ", or patches [B, " + std::to_string(patches) + ", " + std::to_string(length) + "]");
  return {images.size(2) / c.patch, images.size(3) / c.patch};
}

Tensor VisionTransformer::embed(const Tensor& images) const {
  const VitConfig& c = config_;
  const auto [rows, cols] = grid_of(images);
  const DType stream = compute_type(images.dtype());
  const Tensor tokens = quantization() ? patch_.quantized(images) : patch_(images).to(stream);
  const Tensor first = cls_token.to(stream).expand({images.size(0), 1, c.dim});
  const Tensor positions = resize_positions(pos_embed.to(stream), c.rows(), c.cols(), rows, cols);
  const Tensor x = concat({first, tokens}, 1) + positions;
  if (quantization()) return embedding_(x);
  return generator_.dropout(training() ? c.dropout : 0, streams::step::embedding)(x);
}

Tensor VisionTransformer::final_norm(const ResidualStream& x, DType dtype) const {
  return quantization() ? norm_.quantized(x.sum()) : x.sum_and_norm(norm_, dtype).norm;
}

void VisionTransformer::check_size(const Tensor& images) const {
  const VitConfig& c = config_;
  const int64_t height = c.rows() * c.patch, width = c.cols() * c.patch;
  if (images.ndim() == 3) return;  // grid_of takes no others
  if (images.ndim() != 4 || images.size(2) != height || images.size(3) != width)
    fail("vit", "got images " + images.str() + ", need " +
                    Shape{images.ndim() ? images.size(0) : 0, c.channels, height, width}.str());
}

ResidualStream VisionTransformer::run_blocks(const Tensor& images) const {
  ResidualStream x = embed(images);
  for (size_t i = 0; i < blocks_.size(); ++i) x = (*blocks_[i])(x, images.dtype(), generator_.ahead(2 * i));
  return x;
}

Tensor VisionTransformer::features(const Tensor& images) const {
  const auto of = [&](const Tensor& some) { return final_norm(run_blocks(some), images.dtype()); };
  return quantization() ? in_parts(*quantization(), images, config_.tokens(), of) : of(images);
}

Tensor VisionTransformer::forward(const Tensor& images) const {
  if (!head_) fail("vit", "a model without classes gives features, not logits");
  check_size(images);
  // The norm works token by token, so only the class token needs it.
  const auto first = [&](const Tensor& some) { return run_blocks(some).sum().select(1, 0); };
  if (!quantization()) return (*head_)(norm_(first(images), images.dtype()));
  return head_->quantized(norm_.quantized(in_parts(*quantization(), images, config_.tokens(), first)),
                          norm_.output);
}

Tensor VisionTransformer::class_attention(const Tensor& images, int block) const {
  NoGrad off;
  const int at = block < 0 ? block + int(config_.depth) : block;
  if (at < 0 || at >= int(config_.depth))
    fail("vit",
         "block " + std::to_string(block) + " of a model with " + std::to_string(config_.depth) + " blocks");
  check_size(images);
  ResidualStream x = embed(images);
  for (int i = 0; i < at; ++i) x = (*blocks_[size_t(i)])(x, images.dtype(), Generator());
  const VitBlock& b = *blocks_[size_t(at)];
  const Tensor input =
      quantization() ? b.norm1.quantized(x.sum()) : x.sum_and_norm(b.norm1, images.dtype()).norm;
  return b.attn.weights(input, 1).select(2, 0);
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
