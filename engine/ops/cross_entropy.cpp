#include "engine/cpu/wide_rows.h"
#include "engine/operator.h"
#include "engine/ops.h"
#include "engine/parallel.h"

namespace pursuit {

// The gradient is computed along with the loss, while a row is in cache, and scaled in backward: the logits
// themselves are not kept.
struct CrossEntropy {
  static constexpr const char* name = "cross_entropy";
  double smoothing = 0;
  int64_t ignore_index = -1;
  bool recording = true;
  Tensor g = {};  // of the mean loss

  // loss [1] is f32 for bf16 logits; gradient null where it is not wanted.
  template <class T>
  static void kernel(Cpu, const T* logits, const int64_t* labels, int64_t n, int64_t cols, double smoothing,
                     int64_t ignore_index, compute_t<T>* loss, T* gradient) {
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
    const double scale = counted ? 1.0 / double(counted) : 0;
    std::vector<R> losses(static_cast<size_t>(n));
    parallel_for(n, std::max<int64_t>(1, 4096 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide, wide_gradient;
      const auto one_row = [&](int64_t i, R* to) {
        const auto label = int32_t(labels[i]);
        rows<R>().cross_entropy_rows(widen_row(logits + i * cols, cols, wide), &label, 1, cols, cols, -1,
                                     R(smoothing), R(scale), &losses[size_t(i)], to, cols);
      };
      for (int64_t i = b; i < e; ++i) {
        if (labels[i] == ignore_index) {
          if (gradient) std::fill_n(gradient + i * cols, cols, T{});
        } else if (gradient) {
          change_row(gradient + i * cols, cols, wide_gradient, [&](R* to) { one_row(i, to); });
        } else {
          one_row(i, nullptr);
        }
      }
    });
    double total = 0;
    for (R l : losses) total += double(l);
    *loss = R(total * scale);
  }

  Tensor forward(const Tensor& logits, const Tensor& labels) {
    const Tensor z = logits.contiguous(), y = labels.to(DType::i64).contiguous();
    Tensor loss = empty({}, compute_type(z.dtype()), z.device());
    if (recording) g = empty(z.shape(), z.dtype(), z.device());
    dispatch(z, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<CrossEntropy>(dev, z.data<T>(), y.data<int64_t>(), z.size(0), z.size(1), smoothing, ignore_index,
                           loss.data<compute_t<T>>(), recording ? g.data<T>() : nullptr);
    });
    return loss;
  }
  Grads backward(const Tensor& gy, Needs) { return {g * gy.to(g.dtype()), Tensor()}; }
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
  const bool recording = grad_enabled() && logits.needs_grad();
  return apply(CrossEntropy{label_smoothing, ignore_index, recording}, logits, labels);
}

}  // namespace pursuit
