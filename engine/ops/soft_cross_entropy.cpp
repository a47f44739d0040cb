#include "cuda/soft_cross_entropy.cuh"

#include "engine/cpu/parallel.h"
#include "engine/cpu/wide_rows.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

struct SoftCrossEntropy {
  static constexpr const char* name = "soft_cross_entropy";
  Tensor logits = {}, targets = {};  // targets only for the gradient of the logits
  Needs needs = {};
  Tensor scale = {};  // [], 1 / number of rows; f32 for bf16 logits

  // loss [] is f32 for bf16 logits.
  template <class T> static void kernel(Cpu, const T* logits, const T* targets, int64_t n, int64_t cols,
                                        const Tensor& loss, const Tensor& scale) {
    using R = compute_t<T>;
    std::vector<R> losses(static_cast<size_t>(n));
    parallel_for(n, std::max<int64_t>(1, 4096 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide, wide_targets;
      for (int64_t i = b; i < e; ++i)
        rows<R>().soft_cross_entropy_rows(widen_row(logits + i * cols, cols, wide),
                                          widen_row(targets + i * cols, cols, wide_targets), 1, cols, cols,
                                          cols, 0, 1, &losses[size_t(i)], nullptr, cols);
    });
    double total = 0;
    for (R l : losses) total += double(l);
    *scale.data<R>() = n ? R(1.0 / double(n)) : R(0);
    *loss.data<R>() = n ? R(total / double(n)) : R(0);
  }
  // factor [1] times the gradient of the sum of losses with respect to the logits.
  template <class T> static void gradient(Cpu, const T* logits, const T* targets, int64_t n, int64_t cols,
                                          const compute_t<T>* factor, T* gx) {
    using R = compute_t<T>;
    parallel_for(n, std::max<int64_t>(1, 4096 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide, wide_targets, wide_gradient;
      for (int64_t i = b; i < e; ++i) {
        std::fill_n(gx + i * cols, cols, T{});
        R loss;
        change_row(gx + i * cols, cols, wide_gradient, [&](R* to) {
          rows<R>().soft_cross_entropy_rows(widen_row(logits + i * cols, cols, wide),
                                            widen_row(targets + i * cols, cols, wide_targets), 1, cols, cols,
                                            cols, 0, *factor, &loss, to, cols);
        });
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const T* logits, const T* targets, int64_t n, int64_t cols,
                                        const Tensor& loss, const Tensor& scale) {
    cuda::with_team<T>(cols, {logits, targets}, [&]<class Team>(Type<Team>) {
      cuda::mean_of_losses(Team::grid(n, cuda::loss_blocks), loss.data<float>(), scale.data<float>(),
                           [&](const cuda::Grid& grid, const cuda::MeanLoss& mean) {
                             cuda::launch<cuda::soft_cross_entropy_kernel<Team, T>>(grid, logits, targets, n,
                                                                                    cols, mean);
                           });
    });
  }
  template <class T> static void gradient(Cuda, const T* logits, const T* targets, int64_t n, int64_t cols,
                                          const float* factor, T* gx) {
    if (n == 0) return;
    cuda::with_team<T>(cols, {logits, targets, gx}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::soft_cross_entropy_gradient_kernel<Team, T>>(Team::grid(n), logits, targets, n, cols,
                                                                      factor, gx);
    });
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& distributions) {
    logits = in.contiguous();
    targets = distributions.contiguous();
    Tensor loss = empty({}, compute_type(logits.dtype()), logits.device());
    scale = empty_like(loss);
    dispatch(logits, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<SoftCrossEntropy>(dev, logits.data<T>(), targets.data<T>(), logits.size(0), logits.size(1), loss,
                               scale);
    });
    if (!needs[0]) targets = {};
    return loss;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor factor = gy * scale;
    Tensor gz, gt;
    if (needs[0]) {
      gz = empty_like(logits);
      dispatch(logits, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
        launch_gradient<SoftCrossEntropy>(dev, logits.data<T>(), targets.data<T>(), logits.size(0),
                                          logits.size(1), factor.data<compute_t<T>>(), gz.data<T>());
      });
    }
    if (needs[1]) gt = log_softmax(logits) * (-factor).to(logits.dtype());
    return {gz, gt};
  }
  Tensor reference(const Tensor& z, const Tensor& t) const {
    return sum(t * log_softmax(z)) * (z.size(0) ? -1.0 / double(z.size(0)) : 0);
  }
  static std::vector<Sample<SoftCrossEntropy>> samples() {
    return {{{}, {{{4, 7}, -3, 3}, {{4, 7}, 0, 1}}},
            {{}, {{{33, 10}, -3, 3}, {{33, 10}, 0, 0.2}}},
            {{}, {{{2, 512}, -3, 3}, {{2, 512}, 0, 0.01}}},
            {{}, {{{3, 513}, -3, 3}, {{3, 513}, 0, 0.01}}},
            {{}, {{{0, 5}}, {{0, 5}}}}};
  }
};
PURSUIT_OPERATOR(SoftCrossEntropy)

Tensor soft_cross_entropy(const Tensor& logits, const Tensor& targets) {
  if (logits.ndim() != 2 || logits.shape() != targets.shape() || logits.dtype() != targets.dtype() ||
      logits.device() != targets.device())
    fail("soft_cross_entropy", "got logits " + logits.str() + " and targets " + targets.str() +
                                   ", need [rows, classes] twice, of one dtype and device");
  return apply(SoftCrossEntropy{}, logits, targets);
}

}  // namespace pursuit
