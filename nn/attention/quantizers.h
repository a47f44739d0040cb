#pragma once
#include "nn/quantization/quantizer.h"

namespace pursuit::nn {

// Where a quantised attention layer rounds. Scores are scale q k^T before the mask, the context what is
// mixed, after gates and with the heads merged.
struct AttentionQuantizers : Module {
  // Without own queries these are the keys; with `by_softmax` scores and probabilities are rounded too.
  AttentionQuantizers(bool own_queries, bool by_softmax);
  AttentionGrids grids() const;  // of the operator; needs by_softmax

  Quantizer queries, keys, values, scores, probabilities, context, output;

 private:
  bool own_queries_;
};

}  // namespace pursuit::nn
