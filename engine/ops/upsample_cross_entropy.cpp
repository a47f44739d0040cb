#include "cuda/upsample_cross_entropy.cuh"

#include <algorithm>
#include <numeric>

#include "engine/cpu/bilinear.h"
#include "engine/cpu/parallel.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

// Forward also computes the gradient of the summed losses, while a pixel's probabilities are available; it is
// as small as the logits, and backward only scales it. A label out of range is an error on the CPU and makes
// the loss NaN on a GPU, where a kernel cannot throw.
struct UpsampleCrossEntropy {
  static constexpr const char* name = "upsample_cross_entropy";
  int64_t ignore_index = 255;
  bool differentiable = true;
  Upsampling sizes = {};
  DType dtype = DType::f32;
  // Contributions of the pixels between two rows of logits to the gradient of the row before and the row
  // after: [B, rows, 2, cols, classes]; on a GPU [B, rows, cols, 4, classes] for the four tokens around them.
  // In the accumulation dtype.
  Tensor parts = {};
  Tensor scale = {};  // [], 1 / number of pixels that count

  // x [B, rows, cols, classes]; parts is null if no gradient is needed.
  template <class T> static void kernel(Cpu, const T* x, const Tensor& labels, const Upsampling& s,
                                        int64_t ignore_index, const Tensor& loss, const Tensor& scale,
                                        const Tensor& parts) {
    using R = compute_t<T>;
    const int64_t* y = labels.data<int64_t>();
    const int64_t pixels = s.height * s.width, line_size = s.cols * s.classes;
    int64_t counted = 0;
    for (int64_t i = 0; i < s.batch * pixels; ++i) {
      if (y[i] == ignore_index) continue;
      ++counted;
      if (y[i] < 0 || y[i] >= s.classes)
        fail(name, "the label of image " + std::to_string(i / pixels) + " at x " +
                       std::to_string(i % s.width) + ", y " + std::to_string(i / s.width % s.height) +
                       " is " + std::to_string(y[i]) + ", need 0 to " + std::to_string(s.classes - 1) +
                       " or ignore_index " + std::to_string(ignore_index));
    }
    const auto down_rows = bilinear_taps<R>(s.rows, s.height), across = bilinear_taps<R>(s.cols, s.width);
    // The pixels after one row of logits are one task, so that the result does not depend on the threads.
    std::vector<double> losses(static_cast<size_t>(s.batch * s.rows));
    parallel_for(s.batch * s.rows, 1, [&](int64_t b, int64_t e) {
      std::vector<R> line(static_cast<size_t>(line_size)), slope(line), point(static_cast<size_t>(s.classes));
      for (int64_t task = b; task < e; ++task) {
        const int64_t image = task / s.rows, row = task % s.rows;
        R* part = parts.defined() ? parts.data<R>() + 2 * task * line_size : nullptr;
        if (part) std::fill_n(part, 2 * line_size, R(0));
        auto i = std::lower_bound(down_rows.begin(), down_rows.end(), row,
                                  [](const Tap<R>& tap, int64_t r) { return tap.low < r; });
        for (; i != down_rows.end() && i->low == row; ++i) {
          bilinear_line(x + image * s.rows * line_size, *i, line_size, line.data());
          if (part) std::fill(slope.begin(), slope.end(), R(0));
          const int64_t* of_row = y + image * pixels + (i - down_rows.begin()) * s.width;
          losses[size_t(task)] +=
              rows<R>().cross_entropy_between(line.data(), across.data(), of_row, s.width, s.classes,
                                              ignore_index, point.data(), part ? slope.data() : nullptr);
          if (!part) continue;
          rows<R>().axpy(1 - i->weight, slope.data(), part, line_size);
          rows<R>().axpy(i->weight, slope.data(), part + line_size, line_size);
        }
      }
    });
    const double total = std::accumulate(losses.begin(), losses.end(), 0.0);
    *scale.data<R>() = counted ? R(1.0 / double(counted)) : R(0);
    *loss.data<R>() = counted ? R(total / double(counted)) : R(0);
  }
  // gx [B, rows, cols, classes] = factor [1] times the sum of the parts.
  template <class T> static void gradient(Cpu, const compute_t<T>* parts, const Upsampling& s,
                                          const compute_t<T>* factor, T* gx) {
    const int64_t n = s.cols * s.classes;
    parallel_for(s.batch * s.rows, 1, [&](int64_t b, int64_t e) {
      for (int64_t task = b; task < e; ++task) {
        const auto* before = parts + 2 * task * n;  // this row's own part, then the next row's
        const auto* behind = before - n;
        const bool first = task % s.rows == 0, last = task % s.rows == s.rows - 1;
        for (int64_t j = 0; j < n; ++j) {
          const auto sum = before[j] + (first ? 0 : behind[j]) + (last ? before[n + j] : 0);
          gx[task * n + j] = downcast<T>(*factor * sum);
        }
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const T* x, const Tensor& labels, const Upsampling& s,
                                        int64_t ignore_index, const Tensor& loss, const Tensor& scale,
                                        const Tensor& parts) {
    cuda::upsample_cross_entropy(x, labels.data<int64_t>(), s, ignore_index, loss.data<float>(),
                                 scale.data<float>(), parts.defined() ? parts.data<float>() : nullptr);
  }
  template <class T>
  static void gradient(Cuda, const float* parts, const Upsampling& s, const float* factor, T* gx) {
    cuda::launch<cuda::upsample_cross_entropy_gradient_kernel<T>>(
        {cuda::blocks_for(s.tokens() * s.classes, 256), 256}, parts, s, factor, gx);
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& labels) {
    sizes = {in.size(0), in.size(2), in.size(3), in.size(1), labels.size(1), labels.size(2)};
    dtype = in.dtype();
    const Tensor x = in.permute({0, 2, 3, 1}).contiguous(), y = labels.to(DType::i64).contiguous();
    Tensor loss = empty({}, compute_type(dtype), in.device());
    scale = empty_like(loss);
    const int64_t shares = in.device().is_cuda() ? 4 : 2;
    if (differentiable)
      parts = empty({shares, sizes.tokens(), sizes.classes}, compute_type(dtype), in.device());
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<UpsampleCrossEntropy>(dev, x.data<T>(), y, sizes, ignore_index, loss, scale, parts);
    });
    return loss;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor factor = gy * scale;
    Tensor gx = empty({sizes.batch, sizes.rows, sizes.cols, sizes.classes}, dtype, gy.device());
    if (gx.numel() == 0) return {gx.permute({0, 3, 1, 2}), Tensor()};
    dispatch(gx, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<UpsampleCrossEntropy>(dev, parts.data<compute_t<T>>(), sizes,
                                            factor.data<compute_t<T>>(), gx.data<T>());
    });
    return {gx.permute({0, 3, 1, 2}), Tensor()};
  }
  Tensor reference(const Tensor& logits, const Tensor& labels) const {
    const Tensor full = upsample_bilinear(logits, labels.size(1), labels.size(2)).permute({0, 2, 3, 1});
    return cross_entropy(full.reshape({labels.numel(), logits.size(1)}), labels.reshape({labels.numel()}), 0,
                         ignore_index);
  }
  static std::vector<Sample<UpsampleCrossEntropy>> samples() {
    const auto sample = [](Shape logits, int64_t height, int64_t width, int64_t ignore_index) {
      return Sample<UpsampleCrossEntropy>{{ignore_index},
                                          {{logits, -3, 3}, labels({logits[0], height, width}, logits[1])}};
    };
    std::vector<Sample<UpsampleCrossEntropy>> all = {
        sample({2, 5, 3, 4}, 12, 16, 2), sample({1, 37, 2, 3}, 7, 11, 255), sample({1, 1, 2, 2}, 5, 4, 255),
        sample({2, 3, 5, 4}, 3, 2, 255), sample({1, 4, 1, 1}, 3, 5, 0),     sample({1, 150, 2, 2}, 8, 8, 255),
        sample({1, 300, 1, 2}, 3, 4, 7), sample({0, 3, 2, 2}, 4, 4, 255)};
    all.push_back({{3}, {{{1, 4, 2, 2}, -3, 3}, {{1, 4, 4}, 3, 4, true}}});  // every pixel ignored
    return all;
  }
};
PURSUIT_OPERATOR(UpsampleCrossEntropy)

Tensor upsample_cross_entropy(const Tensor& logits, const Tensor& labels, int64_t ignore_index) {
  if (logits.ndim() != 4 || labels.ndim() != 3 || logits.size(0) != labels.size(0) || logits.size(1) < 1 ||
      logits.size(2) < 1 || logits.size(3) < 1 || labels.size(1) < 1 || labels.size(2) < 1 ||
      is_floating(labels.dtype()) || logits.device() != labels.device())
    fail("upsample_cross_entropy", "got logits " + logits.str() + " and labels " + labels.str() +
                                       ", need [B, classes, h, w] and integers [B, H, W] on one device");
  return apply(UpsampleCrossEntropy{ignore_index, grad_enabled() && logits.needs_grad()}, logits, labels);
}

}  // namespace pursuit
