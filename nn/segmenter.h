#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/choice.h"
#include "nn/vit.h"

namespace pursuit::nn {

enum class SegmenterDecoder {
  linear,  // a linear layer on every patch token
  mask,    // a transformer over patch and class tokens, whose products are the logits
};
inline std::vector<Choice<SegmenterDecoder>> choices_of(SegmenterDecoder) {
  return {{"linear", SegmenterDecoder::linear},
          {"mask", SegmenterDecoder::mask, "Segmenter's mask transformer"}};
}

struct SegmenterConfig {
  // `image` and `width` are those of training; others are possible. `classes` is the segmenter's.
  VitConfig encoder;
  SegmenterDecoder decoder = SegmenterDecoder::mask;
  // Of the mask decoder, whose width, heads and attention are the encoder's:
  int64_t decoder_depth = 2;
  double decoder_dropout = 0.1;  // of what its layers add to the residual stream
  double decoder_attention_dropout = 0, decoder_activation_dropout = 0;  // as VitConfig's
  // Of kinds that iterate: decoder blocks do so by the encoder's `layers`, counted from the decoder's first.
  // The published RPC code does so, because it compares a block's number only. false: the decoder has none.
  bool decoder_iterates = true;
};

// Segmenter (Strudel et al., ICCV 2021): a vision transformer whose patch tokens are decoded to logits of
// every patch. Names and shapes are the official code's: encoder.* as timm's, decoder.head for the linear
// decoder; decoder.proj_dec, blocks, cls_emb, decoder_norm, proj_patch, proj_classes, mask_norm for the mask
// transformer. LayerNorm's eps is the encoder's `ln_eps` there, and 1e-5 in the decoder. The official code
// has 1e-5 everywhere, and one rate for all three kinds of the decoder's dropout.
class Segmenter : public Callable<Segmenter> {
 public:
  explicit Segmenter(const SegmenterConfig& config);
  ~Segmenter() override;

  // images [B, channels, H, W] of any multiple of the patch to logits of the patches [B, classes, H / patch,
  // W / patch], see upsample_cross_entropy and upsample_argmax for what follows.
  Tensor forward(const Tensor& images) const;

  // As VisionTransformer::set_step.
  void set_step(uint64_t seed, uint64_t step, uint64_t batch = 0);

  // Takes the encoder from a classifier's weights by their names; its head is left out. Positions are
  // interpolated from its square grid. Throws if a tensor is missing or of another shape, or the grid is not
  // square; `source` is used in the message.
  void load_encoder(const std::map<std::string, Tensor>& weights, const std::string& source);

  const SegmenterConfig& config() const { return config_; }

 private:
  class MaskTransformer;

  SegmenterConfig config_;
  VisionTransformer encoder_;
  std::optional<Linear> linear_;
  std::unique_ptr<MaskTransformer> mask_;
};

}  // namespace pursuit::nn
