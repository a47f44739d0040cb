#pragma once
#include <functional>

#include "engine/cpu/parallel.h"
#include "nn/attacks/attacks.h"

// Functions shared by the attacks.
namespace pursuit::attacks {

// -1, 0 or 1 for every entry.
Tensor sign(const Tensor& g);

// Random stream i of `draws` (a range of streams::attack) for image `row` of the victim.
uint64_t stream_of(const Victim& victim, int64_t row, const streams::Range& draws, uint64_t i = 0);

// Uniform numbers for every image of x, from its stream streams::attack::start.
Tensor uniform_like(const Victim& victim, const Tensor& x, double lo, double hi);

// dLoss/dx, given slope(logits) = dLoss/dlogits for f32 logits. Throws Error unless it is finite.
Tensor input_gradient(const Victim& victim, const Tensor& x,
                      const std::function<Tensor(const Tensor&)>& slope);

// The gradient of each image's cross-entropy with respect to its entries.
Tensor loss_gradient(const Victim& victim, const Tensor& x);

Tensor kept_in_range(const Victim& victim, const Tensor& x);  // clamped to [0, 1] if the victim clips

// The label's logit minus the largest other logit. It is negative where the model is wrong.
struct Margin {
  double value = 0;
  int64_t other = 0;  // the class of the largest other logit
};
Margin margin_of(const float* logits, int64_t classes, int64_t label);

// Calls f(i) for each of n pictures, in parallel: f may change what is of picture i alone.
template <class F> void for_each_picture(size_t n, const F& f) {
  parallel_for(int64_t(n), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(size_t(i));
  });
}

// Adam (Kingma & Ba 2015) with the usual betas.
class Adam {
 public:
  explicit Adam(double lr) : lr_(lr) {}
  Tensor step(const Tensor& x, const Tensor& gradient);

 private:
  double lr_;
  int t_ = 0;
  Tensor m_, v_;
};

}  // namespace pursuit::attacks
