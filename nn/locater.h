#pragma once
#include <vector>

#include "engine/base/choice.h"
#include "engine/core/tensor.h"

namespace pursuit::nn {

// LOCATER (Bao, Hataya & Karakida, ICML 2024): a penalty that shrinks the scale of the eigenvalues of W =
// W_Q^T W_K but keeps their mean, so that attention neither collapses onto few tokens nor becomes uniform.
// The paper's exact formula is not public; these are variants of what it describes:
enum class LocaterForm {
  anchor,  // |W|_F^2 + beta (tr W - c)^2: keeps the mean; converges to tr W = c / (1 + 1 / (beta d))
  var,     // |W|_F^2 - (tr W)^2 / d: the variance of the eigenvalues of a symmetric W
  fro,     // |W|_F^2: the scale only
  tr2,     // tr W^2 - (tr W)^2 / d: the variance taken literally; unbounded below unless W is symmetric
};
inline std::vector<Choice<LocaterForm>> choices_of(LocaterForm) {
  return {{"anchor", LocaterForm::anchor},
          {"var", LocaterForm::var},
          {"fro", LocaterForm::fro},
          {"tr2", LocaterForm::tr2, "unbounded"}};
}

struct LocaterOptions {
  LocaterForm form = LocaterForm::anchor;
  double beta = 1, c = 10;       // anchor
  bool allow_unbounded = false;  // without it tr2 is an error
};

// R(W) summed over the heads; W_Q and W_K [..., d_h, d] as in nn/qk_matrix.h. A scalar with autograd.
Tensor locater(const Tensor& query, const Tensor& key, const LocaterOptions& options);

}  // namespace pursuit::nn
