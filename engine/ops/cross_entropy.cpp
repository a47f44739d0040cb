#include "cuda/cross_entropy.cuh"

#include "engine/cpu/parallel.h"
#include "engine/cpu/wide_rows.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

// A label out of range is an error on the CPU and makes the loss NaN on a GPU, where a kernel cannot throw.
struct CrossEntropy {
  static constexpr const char* name = "cross_entropy";
  double smoothing = 0;
  int64_t ignore_index = -1;
  Tensor logits = {}, classes = {};
  Tensor scale = {};  // [], 1 / number of rows that count; f32 for bf16 logits

  // loss [] is f32 for bf16 logits.
  template <class T> static void kernel(Cpu, const T* logits, const int64_t* labels, int64_t n, int64_t cols,
                                        double smoothing, int64_t ignore_index, const Tensor& loss,
                                        const Tensor& scale) {
    using R = compute_t<T>;
    int64_t counted = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (labels[i] == ignore_index) continue;
      ++counted;
      if (labels[i] < 0 || labels[i] >= cols)
        fail(name, "the label of row " + std::to_string(i) + " is " + std::to_string(labels[i]) +
                       ", need 0 to " + std::to_string(cols - 1) + " or ignore_index " +
                       std::to_string(ignore_index));
    }
    std::vector<R> losses(static_cast<size_t>(n));
    parallel_for(n, std::max<int64_t>(1, 4096 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide;
      for (int64_t i = b; i < e; ++i) {
        if (labels[i] == ignore_index) continue;
        rows<R>().cross_entropy_rows(widen_row(logits + i * cols, cols, wide), labels + i, 1, cols, cols, -1,
                                     R(smoothing), 1, &losses[size_t(i)], nullptr, cols);
      }
    });
    double total = 0;
    for (R l : losses) total += double(l);
    *scale.data<R>() = counted ? R(1.0 / double(counted)) : R(0);
    *loss.data<R>() = counted ? R(total / double(counted)) : R(0);
  }
  // factor [1] times the gradient of the sum of losses.
  template <class T> static void gradient(Cpu, const T* logits, const int64_t* labels, int64_t n,
                                          int64_t cols, double smoothing, int64_t ignore_index,
                                          const compute_t<T>* factor, T* gx) {
    using R = compute_t<T>;
    parallel_for(n, std::max<int64_t>(1, 4096 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide, wide_gradient;
      for (int64_t i = b; i < e; ++i) {
        std::fill_n(gx + i * cols, cols, T{});
        if (labels[i] == ignore_index) continue;
        R loss;
        change_row(gx + i * cols, cols, wide_gradient, [&](R* to) {
          rows<R>().cross_entropy_rows(widen_row(logits + i * cols, cols, wide), labels + i, 1, cols, cols,
                                       -1, R(smoothing), *factor, &loss, to, cols);
        });
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const T* logits, const int64_t* labels, int64_t n, int64_t cols,
                                        double smoothing, int64_t ignore_index, const Tensor& loss,
                                        const Tensor& scale) {
    cuda::with_team<T>(cols, {logits}, [&]<class Team>(Type<Team>) {
      cuda::mean_of_losses(Team::grid(n, cuda::loss_blocks), loss.data<float>(), scale.data<float>(),
                           [&](const cuda::Grid& grid, const cuda::MeanLoss& mean) {
                             cuda::launch<cuda::cross_entropy_kernel<Team, T>>(
                                 grid, logits, labels, n, cols, float(smoothing), ignore_index, mean);
                           });
    });
  }
  template <class T> static void gradient(Cuda, const T* logits, const int64_t* labels, int64_t n,
                                          int64_t cols, double smoothing, int64_t ignore_index,
                                          const float* factor, T* gx) {
    if (n == 0) return;
    cuda::with_team<T>(cols, {logits, gx}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::cross_entropy_gradient_kernel<Team, T>>(Team::grid(n), logits, labels, n, cols,
                                                                 float(smoothing), ignore_index, factor, gx);
    });
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& labels) {
    logits = in.contiguous();
    classes = labels.to(DType::i64).contiguous();
    Tensor loss = empty({}, compute_type(logits.dtype()), logits.device());
    scale = empty_like(loss);
    dispatch(logits, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<CrossEntropy>(dev, logits.data<T>(), classes.data<int64_t>(), logits.size(0), logits.size(1),
                           smoothing, ignore_index, loss, scale);
    });
    return loss;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor factor = gy * scale;
    Tensor gx = empty_like(logits);
    dispatch(logits, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<CrossEntropy>(dev, logits.data<T>(), classes.data<int64_t>(), logits.size(0),
                                    logits.size(1), smoothing, ignore_index, factor.data<compute_t<T>>(),
                                    gx.data<T>());
    });
    return {gx, Tensor()};
  }
  Tensor reference(const Tensor& logits, const Tensor& labels) const {
    const int64_t rows = logits.size(0), cols = logits.size(1);
    std::vector<double> t(size_t(rows * cols));
    const std::vector<double> y = labels.to_vector();
    int64_t counted = 0;
    for (int64_t i = 0; i < rows; ++i) {
      if (int64_t(y[size_t(i)]) == ignore_index) continue;
      ++counted;
      for (int64_t j = 0; j < cols; ++j) t[size_t(i * cols + j)] = smoothing / double(cols);
      t[size_t(i * cols) + size_t(y[size_t(i)])] += 1 - smoothing;
    }
    const Tensor target = from_vector(t, logits.shape()).to(logits.dtype()).to(logits.device());
    return sum(target * log_softmax(logits)) * (counted ? -1.0 / double(counted) : 0);
  }
  static std::vector<Sample<CrossEntropy>> samples() {
    return {{{}, {{{4, 7}, -3, 3}, labels({4}, 7)}},
            {{0.1}, {{{33, 10}, -3, 3}, labels({33}, 10)}},
            {{0.2, 3}, {{{9, 5}, -3, 3}, labels({9}, 5)}},
            {{}, {{{2, 1000}, -3, 3}, labels({2}, 1000)}},
            {{0.1, 1}, {{{3, 513}, -3, 3}, labels({3}, 513)}},
            {{0.1}, {{{2, 1032}, -3, 3}, labels({2}, 1032)}},
            {{}, {{{0, 5}}, labels({0}, 5)}}};
  }
};
PURSUIT_OPERATOR(CrossEntropy)

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double label_smoothing,
                     int64_t ignore_index) {
  if (logits.ndim() != 2 || labels.ndim() != 1 || logits.size(0) != labels.size(0) ||
      is_floating(labels.dtype()) || logits.device() != labels.device())
    fail("cross_entropy", "got logits " + logits.str() + " and labels " + labels.str() +
                              ", need [rows, classes] and integers [rows] on one device");
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    fail("cross_entropy", "got label_smoothing " + std::to_string(label_smoothing) + ", need 0 to 1");
  return apply(CrossEntropy{label_smoothing, ignore_index}, logits, labels);
}

}  // namespace pursuit
