#include "apps/classify/model.h"

namespace pursuit::classify {

Model::Model(const ModelConfig& config) {
  if (const auto* vit = std::get_if<nn::VitConfig>(&config)) {
    vit_ = std::make_unique<nn::VisionTransformer>(*vit);
    add_module("", *vit_);
  } else {
    resnet_ = std::make_unique<nn::ResNet>(std::get<nn::ResNetConfig>(config));
    add_module("", *resnet_);
  }
}

Tensor Model::forward(const Tensor& images) const { return vit_ ? (*vit_)(images) : (*resnet_)(images); }

void Model::set_step(uint64_t seed, uint64_t step, uint64_t batch) {
  if (vit_) return vit_->set_step(seed, step, batch);
  generator_.set_step(seed, step, batch, parameters().front().tensor->device());
}

}  // namespace pursuit::classify
