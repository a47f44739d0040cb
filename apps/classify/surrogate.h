#pragma once
#include <string>

#include "apps/classify/pipeline.h"

namespace pursuit::classify {

// Another run's model, on which pictures are attacked that the evaluated model then classifies.
class Surrogate {
 public:
  // Throws Error unless both models take pictures of the same size and channels and know the same classes in
  // the same order.
  Surrogate(const std::string& run, const apps::LoadOptions& load, const Config& evaluated);

  // The logits of pictures that are normalised for the evaluated model.
  Tensor operator()(const Tensor& images) const;

  const Model& model() const { return *loaded_.model; }
  const std::string& name() const { return loaded_.name; }                      // of the run
  std::string attention() const { return describe_attention(loaded_.config); }  // "RPC-Attention ..."

 private:
  LoadedModel loaded_;
  std::vector<double> mean_, std_;  // of the evaluated model's normalisation
};

}  // namespace pursuit::classify
