#include "cuda/upsample_bilinear.cuh"

#include <vector>

#include "engine/cpu/bilinear.h"
#include "engine/cpu/parallel.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

struct UpsampleBilinear {
  static constexpr const char* name = "upsample_bilinear";
  int64_t height = 0, width = 0;
  Shape before = {};

  // planes [h, w] to planes [height, width]: rows first, then columns.
  template <class T> static void kernel(Cpu, const T* x, T* y, int64_t planes, int64_t h, int64_t w,
                                        int64_t height, int64_t width) {
    using A = compute_t<T>;
    const auto down_rows = bilinear_taps<A>(h, height), across = bilinear_taps<A>(w, width);
    parallel_for(planes * height, std::max<int64_t>(1, 8192 / width), [&](int64_t b, int64_t e) {
      std::vector<A> line(static_cast<size_t>(w));
      for (int64_t row = b; row < e; ++row) {
        bilinear_line(x + row / height * h * w, down_rows[size_t(row % height)], w, line.data());
        for (int64_t j = 0; j < width; ++j) {
          const Tap<A>& c = across[size_t(j)];
          y[row * width + j] =
              downcast<T>((1 - c.weight) * line[size_t(c.low)] + c.weight * line[size_t(c.high)]);
        }
      }
    });
  }
  // The transpose, in the order of the output rows within a plane, whatever the number of threads.
  template <class T> static void gradient(Cpu, const T* gy, T* gx, int64_t planes, int64_t h, int64_t w,
                                          int64_t height, int64_t width) {
    using A = compute_t<T>;
    const auto down_rows = bilinear_taps<A>(h, height), across = bilinear_taps<A>(w, width);
    parallel_for(planes, 1, [&](int64_t b, int64_t e) {
      std::vector<A> line(static_cast<size_t>(w)), plane(static_cast<size_t>(h * w));
      for (int64_t p = b; p < e; ++p) {
        std::fill(plane.begin(), plane.end(), A(0));
        for (int64_t i = 0; i < height; ++i) {
          const T* g = gy + (p * height + i) * width;
          std::fill(line.begin(), line.end(), A(0));
          for (int64_t j = 0; j < width; ++j) {
            const Tap<A>& c = across[size_t(j)];
            line[size_t(c.low)] += (1 - c.weight) * upcast(g[j]);
            line[size_t(c.high)] += c.weight * upcast(g[j]);
          }
          const Tap<A>& r = down_rows[size_t(i)];
          A *low = plane.data() + r.low * w, *high = plane.data() + r.high * w;
          for (int64_t j = 0; j < w; ++j) low[j] += (1 - r.weight) * line[size_t(j)];
          for (int64_t j = 0; j < w; ++j) high[j] += r.weight * line[size_t(j)];
        }
        for (int64_t j = 0; j < h * w; ++j) gx[p * h * w + j] = downcast<T>(plane[size_t(j)]);
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const T* x, T* y, int64_t planes, int64_t h, int64_t w,
                                        int64_t height, int64_t width) {
    const cuda::Axis rows{h, height}, cols{w, width};
    const int64_t strips = (height + cuda::upsample_rows - 1) / cuda::upsample_rows;
    cuda::with_pack<T>(width, {y}, [&]<int V>() {
      cuda::launch<cuda::upsample_kernel<V, T>>({cuda::blocks_for(planes * strips * (width / V), 128), 128},
                                                x, y, planes, rows, cols);
    });
  }
  template <class T> static void gradient(Cuda, const T* gy, T* gx, int64_t planes, int64_t h, int64_t w,
                                          int64_t height, int64_t width) {
    const cuda::Axis rows{h, height}, cols{w, width};
    cuda::with_pack<T>(width, {gy}, [&]<int V>() {
      cuda::launch<cuda::upsample_gradient_kernel<V, T>>(
          {unsigned(planes * h), cuda::upsample_threads, cuda::shared_size<float>(cuda::upsample_piece)}, gy,
          gx, rows, cols);
    });
  }
#endif

  Tensor forward(const Tensor& in) {
    const Tensor x = in.contiguous();
    before = x.shape();
    Tensor y = empty({before[0], before[1], height, width}, x.dtype(), x.device());
    if (y.numel() == 0) return y;
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<UpsampleBilinear>(dev, x.data<T>(), y.data<T>(), before[0] * before[1], before[2], before[3],
                               height, width);
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor g = gy.contiguous();
    Tensor gx = empty(before, g.dtype(), g.device());
    if (g.numel() == 0) return {gx};
    dispatch(g, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<UpsampleBilinear>(dev, g.data<T>(), gx.data<T>(), before[0] * before[1], before[2],
                                        before[3], height, width);
    });
    return {gx};
  }
  // As two matrix products.
  Tensor reference(const Tensor& x) const {
    const auto matrix = [&](int64_t from, int64_t to) {
      std::vector<double> m(size_t(from * to));
      const auto t = bilinear_taps<double>(from, to);
      for (int64_t i = 0; i < to; ++i) {
        m[size_t(i * from + t[size_t(i)].low)] += 1 - t[size_t(i)].weight;
        m[size_t(i * from + t[size_t(i)].high)] += t[size_t(i)].weight;
      }
      return from_vector(m, {to, from}).to(x.dtype()).to(x.device());
    };
    return matmul(matmul(matrix(x.size(2), height), x), matrix(x.size(3), width).transpose(0, 1));
  }
  static std::vector<Sample<UpsampleBilinear>> samples() {
    return {{{6, 8}, {{{2, 3, 3, 4}}}},   {{20, 23}, {{{1, 2, 7, 5}}}},    {{5, 3}, {{{1, 1, 5, 3}}}},
            {{4, 5}, {{{2, 1, 9, 8}}}},   {{3, 3}, {{{1, 2, 1, 1}}}},      {{4, 4}, {{{0, 3, 2, 2}}}},
            {{34, 32}, {{{1, 2, 2, 5}}}}, {{2, 1088}, {{{1, 1, 1, 130}}}}, {{1, 2}, {{{1, 1, 9, 7}}}},
            {{3, 1100}, {{{1, 1, 2, 1}}}}};
  }
};
PURSUIT_OPERATOR(UpsampleBilinear)

Tensor upsample_bilinear(const Tensor& x, int64_t height, int64_t width) {
  if (x.ndim() != 4 || x.size(2) < 1 || x.size(3) < 1 || height < 1 || width < 1)
    fail("upsample_bilinear", "got " + x.str() + " to " + std::to_string(height) + " x " +
                                  std::to_string(width) + ", need [B, C, h, w] and sizes of at least 1");
  return apply(UpsampleBilinear{height, width}, x);
}

}  // namespace pursuit
