#include "engine/cpu/wide_rows.h"
#include "engine/operator.h"
#include "engine/ops.h"
#include "engine/parallel.h"

namespace pursuit {

struct SoftCrossEntropy {
  static constexpr const char* name = "soft_cross_entropy";
  bool logits_gradient = true, targets_gradient = true;  // wanted
  Tensor g = {};                                         // of the mean loss with respect to the logits
  Tensor logits = {};  // for the gradient of the targets, -log softmax(logits)

  // loss [1] is f32 for bf16 logits; gradient null where it is not wanted.
  template <class T>
  static void kernel(Cpu, const T* logits, const T* targets, int64_t n, int64_t cols, compute_t<T>* loss,
                     T* gradient) {
    using R = compute_t<T>;
    const double scale = n ? 1.0 / double(n) : 0;
    std::vector<R> losses(static_cast<size_t>(n));
    parallel_for(n, std::max<int64_t>(1, 4096 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide, wide_targets, wide_gradient;
      const auto one_row = [&](int64_t i, R* to) {
        rows<R>().soft_cross_entropy_rows(widen_row(logits + i * cols, cols, wide),
                                          widen_row(targets + i * cols, cols, wide_targets), 1, cols, cols,
                                          cols, 0, R(scale), &losses[size_t(i)], to, cols);
      };
      for (int64_t i = b; i < e; ++i) {
        if (gradient)
          change_row(gradient + i * cols, cols, wide_gradient, [&](R* to) { one_row(i, to); });
        else
          one_row(i, nullptr);
      }
    });
    double total = 0;
    for (R l : losses) total += double(l);
    *loss = R(total * scale);
  }

  Tensor forward(const Tensor& in, const Tensor& targets) {
    const Tensor z = in.contiguous(), t = targets.contiguous();
    Tensor loss = empty({}, compute_type(z.dtype()), z.device());
    if (logits_gradient) g = empty(z.shape(), z.dtype(), z.device());
    if (targets_gradient) logits = z;
    dispatch(z, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<SoftCrossEntropy>(dev, z.data<T>(), t.data<T>(), z.size(0), z.size(1), loss.data<compute_t<T>>(),
                               logits_gradient ? g.data<T>() : nullptr);
    });
    return loss;
  }
  Grads backward(const Tensor& gy, Needs needs) {
    Tensor gz, gt;
    if (needs[0]) gz = g * gy.to(g.dtype());
    if (needs[1]) {
      const double scale = logits.size(0) ? -1.0 / double(logits.size(0)) : 0;
      gt = log_softmax(logits) * (gy.to(logits.dtype()) * scale);
    }
    return {gz, gt};
  }
  Tensor reference(const Tensor& z, const Tensor& t) const {
    return sum(t * log_softmax(z)) * (z.size(0) ? -1.0 / double(z.size(0)) : 0);
  }
  static std::vector<Sample<SoftCrossEntropy>> samples() {
    return {{{}, {{{4, 7}, -3, 3}, {{4, 7}, 0, 1}}},
            {{}, {{{33, 10}, -3, 3}, {{33, 10}, 0, 0.2}}},
            {{}, {{{0, 5}}, {{0, 5}}}}};
  }
};
PURSUIT_OPERATOR(SoftCrossEntropy)

Tensor soft_cross_entropy(const Tensor& logits, const Tensor& targets) {
  if (logits.ndim() != 2 || logits.shape() != targets.shape() || logits.dtype() != targets.dtype() ||
      logits.device() != targets.device())
    fail("soft_cross_entropy", "got logits " + logits.str() + " and targets " + targets.str() +
                                   ", need [rows, classes] twice, of one dtype and device");
  const bool on = grad_enabled();
  return apply(SoftCrossEntropy{on && logits.needs_grad(), on && targets.needs_grad()}, logits, targets);
}

}  // namespace pursuit
