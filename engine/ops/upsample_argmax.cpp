#include "cuda/upsample_argmax.cuh"

#include "engine/cpu/bilinear.h"
#include "engine/cpu/parallel.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"
#include "engine/sizes/upsampling.h"

namespace pursuit {

namespace {

struct UpsampleArgmax {
  static constexpr const char* name = "upsample_argmax";

  // x [B, rows, cols, classes]
  template <class T> static void kernel(Cpu, const T* x, int64_t* y, const Upsampling& s) {
    using R = compute_t<T>;
    const auto down_rows = bilinear_taps<R>(s.rows, s.height), across = bilinear_taps<R>(s.cols, s.width);
    const int64_t n = s.cols * s.classes;
    parallel_for(s.batch * s.height, 1, [&](int64_t b, int64_t e) {
      std::vector<R> line(static_cast<size_t>(n)), point(static_cast<size_t>(s.classes));
      for (int64_t i = b; i < e; ++i) {
        bilinear_line(x + i / s.height * s.rows * n, down_rows[size_t(i % s.height)], n, line.data());
        rows<R>().argmax_between(line.data(), across.data(), s.width, s.classes, point.data(),
                                 y + i * s.width);
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const T* x, int64_t* y, const Upsampling& s) {
    using Team = cuda::Team<1, true>;
    if (s.pixels() > 0) cuda::launch<cuda::upsample_argmax_kernel<T>>(Team::grid(s.pixels()), x, y, s);
  }
#endif
};

}  // namespace

Tensor upsample_argmax(const Tensor& logits, int64_t height, int64_t width) {
  if (logits.ndim() != 4 || logits.size(1) < 1 || logits.size(2) < 1 || logits.size(3) < 1 || height < 1 ||
      width < 1)
    fail("upsample_argmax", "got " + logits.str() + " to " + std::to_string(height) + " x " +
                                std::to_string(width) + ", need [B, classes, h, w] and sizes of at least 1");
  const Tensor x = logits.detach().permute({0, 2, 3, 1}).contiguous();
  Tensor y = empty({x.size(0), height, width}, DType::i64, x.device());
  const Upsampling sizes{x.size(0), x.size(1), x.size(2), x.size(3), height, width};
  dispatch(x, UpsampleArgmax::name, [&]<class Dev, class T>(Dev dev, Type<T>) {
    launch<UpsampleArgmax>(dev, x.data<T>(), y.data<int64_t>(), sizes);
  });
  return y;
}

}  // namespace pursuit
