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
  mask,    // a transformer over patch and class tokens, whose inner products are the logits
};
inline std::vector<Choice<SegmenterDecoder>> choices_of(SegmenterDecoder) {
  return {{"linear", SegmenterDecoder::linear},
          {"mask", SegmenterDecoder::mask, "Segmenter's mask transformer"}};
}

struct SegmenterConfig {
  // `image` and `width` are the training size; others also work. `classes` is the segmenter's.
  VitConfig encoder;
  SegmenterDecoder decoder = SegmenterDecoder::mask;
  // Mask decoder; its width, heads and attention are the encoder's.
  int64_t decoder_depth = 2;
  double decoder_dropout = 0.1;  // of its branches, before they are added to the residual stream
  double decoder_attention_dropout = 0, decoder_activation_dropout = 0;  // as in VitConfig
  // Kinds that iterate: decoder blocks iterate according to the encoder's `layers`, with indices starting at
  // the decoder's first block, as in the published RPC code, which compares only the index. false: none does.
  bool decoder_iterates = true;
};

// Segmenter (Strudel et al., ICCV 2021): a vision transformer whose patch tokens are decoded to logits per
// patch. Names and shapes are the official code's: encoder.* as in timm, decoder.head for the linear decoder;
// decoder.proj_dec, blocks, cls_emb, decoder_norm, proj_patch, proj_classes, mask_norm for the mask
// transformer. LayerNorm's eps is the encoder's `ln_eps` in the encoder and 1e-5 in the decoder. The official
// code uses 1e-5 everywhere, and one rate for all three kinds of dropout in the decoder.
class Segmenter : public Callable<Segmenter> {
 public:
  explicit Segmenter(const SegmenterConfig& config);
  ~Segmenter() override;

  // images [B, channels, H, W], sides any multiples of the patch, or the encoder's patches, to patch logits [B,
  // classes, H / patch, W / patch]; see upsample_cross_entropy and upsample_argmax for the next step.
  Tensor forward(const Tensor& images) const;

  // As in VisionTransformer::set_step.
  void set_step(uint64_t seed, uint64_t step, uint64_t batch = 0);

  // Loads the encoder from a classifier's weights by name, without its head. Position embeddings are
  // interpolated from their square grid. Throws if a tensor is missing or has another shape, or the grid is
  // not square; `source` names the weights in messages.
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
