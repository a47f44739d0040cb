#pragma once
#include <memory>
#include <variant>

#include "nn/fan.h"
#include "nn/resnet.h"
#include "nn/vit.h"

namespace pursuit::classify {

using ModelConfig = std::variant<nn::VitConfig, nn::FanConfig, nn::ResNetConfig>;

// The classifier that a run trains: a vision transformer, a FAN, or a ResNet as the control without
// attention. Its tensors are named as the chosen one's.
class Model : public nn::Callable<Model> {
 public:
  explicit Model(const ModelConfig& config);

  // Images [B, channels, H, W], or a vision transformer's patches, to logits [B, classes].
  Tensor forward(const Tensor& images) const;
  // Side of a vision transformer's patches; 0 for the others.
  int64_t patch() const { return vit_ ? vit_->config().patch : 0; }
  // As in VisionTransformer::set_step.
  void set_step(uint64_t seed, uint64_t step, uint64_t batch = 0);
  const nn::Generator& generator() const;  // of this step

  // The class token's attention to itself and all patches in one of the blocks that have it (negative: from
  // the end), [B, heads, 1 + patches]; undefined for a model without attention. No autograd.
  Tensor class_attention(const Tensor& images, int block = -1) const;

 private:
  std::unique_ptr<nn::VisionTransformer> vit_;
  std::unique_ptr<nn::Fan> fan_;
  std::unique_ptr<nn::ResNet> resnet_;
  nn::Generator generator_;  // of a ResNet, whose pictures may be erased at random
};

}  // namespace pursuit::classify
