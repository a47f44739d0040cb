#pragma once
#include "apps/pca/setting.h"
#include "engine/core/tensor.h"

namespace pursuit::pca {

// The attention layer with query-key matrix lambda mu mu^T for the first token of every prompt: a head of
// width 1 whose queries and keys are X mu, with values X. mu [R, d] of R runs, prompts [R, B, L, d]: outputs
// [R, B, d].
Tensor first_outputs(Layer layer, const Tensor& mu, const Tensor& prompts, double lambda);

// |X_1 - output|^2, mean over a run's prompts: [R].
Tensor reconstruction_losses(Layer layer, const Tensor& mu, const Tensor& prompts, double lambda);

}  // namespace pursuit::pca
