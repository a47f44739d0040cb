#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "nn/attention/attention.h"
#include "nn/generator.h"
#include "nn/layers.h"

namespace pursuit::nn {

struct VitConfig {
  int64_t image = 224, patch = 16, channels = 3;
  int64_t width = 0;  // of an image that is not square, `image` being its height
  int64_t dim = 192, depth = 12, heads = 3;
  int64_t classes = 1000;  // 0: no head, for a model that is an encoder
  double mlp_ratio = 4, ln_eps = 1e-6;
  AttentionConfig attention;
  double dropout = 0;  // after the position embedding
  // Of every block: of what its attention and MLP add to the residual stream, of the attention's
  // probabilities, and of the MLP's hidden units.
  double branch_dropout = 0, attention_dropout = 0, activation_dropout = 0;
  double drop_path = 0;      // rate of the last block, growing linearly from 0 in the first
  int64_t extra_tokens = 1;  // beside those of the patches

  int64_t rows() const { return image / patch; }
  int64_t cols() const { return (width ? width : image) / patch; }
  int64_t tokens() const { return rows() * cols() + extra_tokens; }
  int64_t hidden() const { return int64_t(double(dim) * mlp_ratio); }  // width of the MLP
};

class VitBlock : public Callable<VitBlock> {
 public:
  VitBlock(const VitConfig& config, int index);
  // x is the residual stream; the layers beside it compute in `dtype`.
  Tensor forward(const Tensor& x, DType dtype, const Generator& generator) const;

  LayerNorm norm1;
  Attention attn;
  LayerNorm norm2;
  Mlp mlp;

 private:
  double dropout_, attention_dropout_, activation_dropout_, drop_path_;
};

// The vision transformer of Dosovitskiy et al. with DeiT's details: class token first, learned positions,
// pre-norm blocks, logits from the class token after the final norm. Names and shapes as timm's
// vision_transformer. Computes in the dtype of the images; under bf16 the residual stream and its gradient
// stay f32, because every block adds to them and their rounding would add up too.
class VisionTransformer : public Callable<VisionTransformer> {
 public:
  explicit VisionTransformer(const VitConfig& config);

  // images [B, channels, image, width] to logits [B, classes].
  Tensor forward(const Tensor& images) const;
  // The tokens after the final norm, [B, 1 + patches, dim]. The images [B, channels, H, W] may be of any
  // multiple of the patch: the positions are then interpolated bilinearly.
  Tensor features(const Tensor& images) const;
  // What the class token looks at in a block (negative: from the end): probabilities [B, heads, N]. Off the
  // tape.
  Tensor class_attention(const Tensor& images, int block = -1) const;

  // Seed, number of the training step and of the batch in it; with a sample's place in the batch dropout and
  // drop path are functions of them alone.
  void set_step(uint64_t seed, uint64_t step, uint64_t batch = 0) {
    generator_.set_step(seed, step, batch, cls_token.device());
  }

  const VitConfig& config() const { return config_; }
  const Generator& generator() const { return generator_; }  // of this step
  Tensor cls_token, pos_embed;

 private:
  Tensor embed(const Tensor& images) const;
  void check_size(const Tensor& images) const;

  VitConfig config_;
  PatchProjection patch_;
  std::vector<std::unique_ptr<VitBlock>> blocks_;
  LayerNorm norm_;
  std::optional<Linear> head_;
  Generator generator_;
};

// pos_embed [1, 1 + from_rows * from_cols, dim] for another grid of patches: the class token's stays, the
// others are interpolated bilinearly.
Tensor resize_positions(const Tensor& pos_embed, int64_t from_rows, int64_t from_cols, int64_t rows,
                        int64_t cols);

}  // namespace pursuit::nn
