#pragma once
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "nn/attention/attention.h"
#include "nn/generator.h"
#include "nn/layers.h"
#include "nn/quantization/config.h"

namespace pursuit::nn {

struct VitConfig {
  int64_t image = 224, patch = 16, channels = 3;
  int64_t width = 0;  // of a non-square image, whose height is `image`
  int64_t dim = 192, depth = 12, heads = 3;
  int64_t classes = 1000;  // 0: no head, the model is an encoder
  double mlp_ratio = 4, ln_eps = 1e-6;
  AttentionConfig attention;
  double dropout = 0;  // after the position embedding
  // In every block: of the attention and MLP branches, of the attention probabilities, and of the MLP's
  // hidden units.
  double branch_dropout = 0, attention_dropout = 0, activation_dropout = 0;
  double drop_path = 0;      // rate of the last block, growing linearly from 0 in the first
  int64_t extra_tokens = 1;  // tokens other than patches
  std::optional<QuantizationConfig> quantization = {};  // makes a quantised model, see nn/quantization

  int64_t rows() const { return image / patch; }
  int64_t cols() const { return (width ? width : image) / patch; }
  int64_t tokens() const { return rows() * cols() + extra_tokens; }
  int64_t hidden() const { return int64_t(double(dim) * mlp_ratio); }  // width of the MLP
};

class VitBlock : public Callable<VitBlock> {
 public:
  VitBlock(const VitConfig& config, int index);
  // The layers beside the residual stream compute in `dtype`.
  ResidualStream forward(const ResidualStream& x, DType dtype, const Generator& generator) const;

  LayerNorm norm1;
  Attention attn;
  LayerNorm norm2;
  Mlp mlp;
  Quantizer attn_sum, mlp_sum;  // of the residual stream after each branch

 private:
  Tensor quantized(const Tensor& x) const;
  double dropout_, attention_dropout_, activation_dropout_, drop_path_;
};

// The vision transformer of Dosovitskiy et al. with DeiT's details: class token first, learned positions,
// pre-norm blocks, logits from the class token after the final norm. Names and shapes as in timm's
// vision_transformer. Computes in the images' dtype; with bf16 the residual stream and its gradient stay f32,
// because every block adds to them and rounding errors would accumulate. In place of images of the training
// size it takes their patches, [B, N, channels * patch * patch], as normalise_images gives them.
class VisionTransformer : public Callable<VisionTransformer> {
 public:
  explicit VisionTransformer(const VitConfig& config);

  // images [B, channels, image, width] to logits [B, classes].
  Tensor forward(const Tensor& images) const;
  // The tokens after the final norm, [B, 1 + patches, dim], of images [B, channels, H, W] whose sides are any
  // multiples of the patch; positions are interpolated bilinearly for sizes other than the training size.
  Tensor features(const Tensor& images) const;
  // The attention of the class token in a block (negative: from the end): the weights of the tokens' values
  // [B, heads, N]. No autograd.
  Tensor class_attention(const Tensor& images, int block = -1) const;

  // Sets seed, training step and batch within the step. Dropout and drop path depend only on these and on a
  // sample's place in the batch.
  void set_step(uint64_t seed, uint64_t step, uint64_t batch = 0) {
    generator_.set_step(seed, step, batch, cls_token.device());
  }

  // Rows and columns of the images' patches; throws if the model cannot take such images.
  std::array<int64_t, 2> grid_of(const Tensor& images) const;

  const VitConfig& config() const { return config_; }
  const Generator& generator() const { return generator_; }  // of this step
  Tensor cls_token, pos_embed;

 private:
  void on_quantize() override;
  Tensor embed(const Tensor& images) const;
  ResidualStream run_blocks(const Tensor& images) const;
  Tensor final_norm(const ResidualStream& x, DType dtype) const;
  void check_size(const Tensor& images) const;

  VitConfig config_;
  PatchProjection patch_;
  std::vector<std::unique_ptr<VitBlock>> blocks_;
  LayerNorm norm_;
  std::optional<Linear> head_;
  Quantizer embedding_;  // of patches and positions
  Generator generator_;
};

// Resizes pos_embed [1, 1 + from_rows * from_cols, dim] to another grid of patches: keeps the class token's
// position and interpolates the others bilinearly.
Tensor resize_positions(const Tensor& pos_embed, int64_t from_rows, int64_t from_cols, int64_t rows,
                        int64_t cols);

}  // namespace pursuit::nn
