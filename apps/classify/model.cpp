#include "apps/classify/model.h"

namespace pursuit::classify {

Model::Model(const ModelConfig& config) {
  if (const auto* vit = std::get_if<nn::VitConfig>(&config)) {
    vit_ = std::make_unique<nn::VisionTransformer>(*vit);
    add_module("", *vit_);
    if (vit_->quantization()) quantize(vit_->quantization());
  } else if (const auto* fan = std::get_if<nn::FanConfig>(&config)) {
    fan_ = std::make_unique<nn::Fan>(*fan);
    add_module("", *fan_);
  } else {
    resnet_ = std::make_unique<nn::ResNet>(std::get<nn::ResNetConfig>(config));
    add_module("", *resnet_);
  }
}

Tensor Model::forward(const Tensor& images) const {
  if (vit_) return (*vit_)(images);
  return fan_ ? (*fan_)(images) : (*resnet_)(images);
}

void Model::set_step(uint64_t seed, uint64_t step, uint64_t batch) {
  if (vit_) return vit_->set_step(seed, step, batch);
  if (fan_) return fan_->set_step(seed, step, batch);
  generator_.set_step(seed, step, batch, parameters().front().tensor->device());
}

const nn::Generator& Model::generator() const {
  if (vit_) return vit_->generator();
  return fan_ ? fan_->generator() : generator_;
}

Tensor Model::class_attention(const Tensor& images, int block) const {
  if (vit_) return vit_->class_attention(images, block);
  return fan_ ? fan_->class_attention(images, block) : Tensor();
}

}  // namespace pursuit::classify
