#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "nn/attention/attention.h"
#include "nn/convolution.h"
#include "nn/generator.h"
#include "nn/layers.h"
#include "nn/norms.h"
#include "nn/sequential.h"

namespace pursuit::nn {

// FAN-tiny by default.
struct FanConfig {
  int64_t image = 224, patch = 16, channels = 3;  // patch: 4, 8 or 16
  int64_t dim = 192, depth = 12, heads = 4;
  int64_t class_depth = 2;  // blocks of class attention behind the others
  int64_t classes = 1000;
  double mlp_ratio = 4, ln_eps = 1e-6;
  AttentionConfig attention = {};  // of the blocks; class attention has queries if the kind of the others has
  double dropout = 0;              // after the position encoding
  double drop_path = 0;            // of every block alike; none in class attention

  int64_t side() const { return image / patch; }                       // patches
  int64_t hidden() const { return int64_t(double(dim) * mlp_ratio); }  // of both kinds of MLP
};

// Position encoding of a grid of patches, a 1 x 1 convolution of sines and cosines: of 2 pi (row + 1) / rows
// and then of the column alike, each times 10000^(-i / 16), i < 16, sine before cosine.
class FourierPositions : public Callable<FourierPositions> {
 public:
  explicit FourierPositions(int64_t dim);
  Tensor forward(int64_t rows, int64_t cols, DType dtype) const;  // [1, rows * cols, dim]

 private:
  Conv2d token_projection_;
  mutable Tensor waves_;  // [1, 64, rows, cols] of the last call
};

// fc2(h + gamma conv2(norm(gelu(conv1(h))))) with h = fc1(x) and depthwise 3 x 3 convolutions over the grid.
class ConvolutionalMlp : public Callable<ConvolutionalMlp> {
 public:
  ConvolutionalMlp(int64_t dim, int64_t hidden);
  Tensor forward(const Tensor& x, int64_t rows) const;  // x [B, rows * cols, dim]

 private:
  Tensor gamma_;
  Linear fc1_, fc2_;
  Conv2d conv1_, conv2_;
  BatchNorm2d norm_;
};

// Channel attention: norm(mlp(x)) times a gate for every channel d of every head h,
//   gate_hd = temperature_h sigmoid(sum_n softmax_n(q)_nd mean_e softmax_n(x)_ne),  q = W x,
// where softmax_n is over the tokens and the mean over the head's channels.
class ChannelAttention : public Callable<ChannelAttention> {
 public:
  ChannelAttention(int64_t dim, int64_t heads, int64_t hidden);
  Tensor forward(const Tensor& x, int64_t rows) const;  // x [B, rows * cols, dim]

 private:
  int64_t heads_;
  Tensor temperature_;  // [heads, 1, 1]
  ConvolutionalMlp mlp_;
  LayerNorm norm_;
  Linear q_;
};

// x + gamma1 attention(norm(x)), then x + gamma2 channels(norm(x)); gamma is layer scale, 1 at the start.
class FanBlock : public Callable<FanBlock> {
 public:
  FanBlock(const FanConfig& config, int64_t index);
  // x [B, rows * cols, dim] in the residual stream's dtype; layers beside it compute in `dtype`.
  Tensor forward(const Tensor& x, int64_t rows, DType dtype, const Generator& generator) const;

 private:
  double drop_path_;
  Tensor gamma1_, gamma2_;
  LayerNorm norm1_;
  Attention attention_;
  LayerNorm norm2_;
  ChannelAttention channels_;
};

// Attention of the class token, the first of x [B, 1 + N, dim], to all tokens (Touvron et al. 2021, CaiT).
class ClassAttention : public Callable<ClassAttention> {
 public:
  // shares_queries: the class token's key is its query.
  ClassAttention(int64_t dim, int64_t heads, bool shares_queries);
  Tensor forward(const Tensor& x) const;        // [B, 1, dim]
  Tensor probabilities(const Tensor& x) const;  // [B, heads, 1, 1 + N]

 private:
  int64_t heads_;
  std::optional<Linear> q_;
  Linear k_, v_, proj_;
};

// A block of class attention as FAN has it: y = norm2(x + gamma1 [attention; the other tokens of norm1(x)]),
// then y + [gamma2 mlp(class token of y); the other tokens of y], by which these are doubled.
class ClassBlock : public Callable<ClassBlock> {
 public:
  explicit ClassBlock(const FanConfig& config);
  Tensor forward(const Tensor& x, DType dtype) const;
  Tensor probabilities(const Tensor& x, DType dtype) const;  // of its attention

 private:
  Tensor gamma1_, gamma2_;
  LayerNorm norm1_;
  ClassAttention attention_;
  LayerNorm norm2_;
  Mlp mlp_;
};

// FAN, the fully attentional network of Zhou et al. 2022 ("Understanding the robustness in vision
// transformers"), in its form FAN-ViT: patches by strided 3 x 3 convolutions with batch norm, Fourier
// positions, blocks that mix tokens and then channels, class attention at the end. Names and shapes are those
// of the published weights, which have `q` and `kv` where timm's vision_transformer has `qkv`. The kind of
// attention mixes tokens. Blocks whose kind uses keys as queries have no `q`, and class attention has none if
// the kind of the blocks outside of AttentionConfig::layers uses them so, as in the RPC form of Teo & Nguyen
// 2024. Computes in the images' dtype, with the residual stream in f32 under bf16.
class Fan : public Callable<Fan> {
 public:
  explicit Fan(const FanConfig& config);

  // images [B, channels, image, image] to logits [B, classes].
  Tensor forward(const Tensor& images) const;
  // The attention of the class token in a block of class attention (negative: from the end): probabilities
  // [B, heads, 1 + patches]. No autograd.
  Tensor class_attention(const Tensor& images, int block = -1) const;

  // As in VisionTransformer::set_step.
  void set_step(uint64_t seed, uint64_t step, uint64_t batch = 0) {
    generator_.set_step(seed, step, batch, cls_token_.device());
  }
  const FanConfig& config() const { return config_; }
  const Generator& generator() const { return generator_; }  // of this step

 private:
  Tensor tokens(const Tensor& images) const;  // [B, 1 + patches, dim] that class attention is given

  FanConfig config_;
  Tensor cls_token_;
  Sequential stem_;
  FourierPositions positions_;
  std::vector<std::unique_ptr<FanBlock>> blocks_;
  std::vector<std::unique_ptr<ClassBlock>> class_blocks_;
  LayerNorm norm_;
  Linear head_;
  Generator generator_;
};

}  // namespace pursuit::nn
