#include "apps/pca/layer.h"

#include "engine/ops.h"
#include "nn/attention/functions.h"

namespace pursuit::pca {

Tensor first_outputs(Layer layer, const Tensor& mu, const Tensor& prompts, double lambda) {
  const int64_t runs = prompts.size(0), batch = prompts.size(1), length = prompts.size(2),
                dim = prompts.size(3);
  const Tensor tokens = prompts.reshape({runs, batch * length, dim});
  const Tensor keys = matmul(tokens, mu.reshape({runs, dim, 1})).reshape({runs * batch, 1, length, 1});
  const Tensor query = keys.slice(2, 0, 1);
  const Tensor weights = layer == Layer::softmax ? nn::attention_weights(query, keys, lambda, false)
                                                 : matmul(query, keys.transpose(-1, -2)) * lambda;
  // values^T weights^T: the product packs its second factor, here one number a token.
  const Tensor values = prompts.reshape({runs * batch, 1, length, dim});
  return matmul(values.transpose(-1, -2), weights.transpose(-1, -2)).reshape({runs, batch, dim});
}

Tensor reconstruction_losses(Layer layer, const Tensor& mu, const Tensor& prompts, double lambda) {
  const Tensor first = prompts.select(2, 0);
  const Tensor rest = first_outputs(layer, mu, prompts, lambda) - first;
  return sum(square(rest), {1, 2}) / double(prompts.size(1));
}

}  // namespace pursuit::pca
