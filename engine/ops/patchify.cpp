#include "cuda/patchify.cuh"

#include <vector>

#include "cuda/dense.cuh"
#include "engine/cpu/dense.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/wide_rows.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

// The patches of images [B, C, H, W], numbered image by image in row order, as vectors of C * patch *
// patch.
struct PatchGrid {
  int64_t images, channels, height, width, patch;
  int64_t down() const { return height / patch; }
  int64_t across() const { return width / patch; }
  int64_t patches() const { return images * down() * across(); }
  int64_t length() const { return channels * patch * patch; }

  // Calls f(offset in the image, offset in the vector) for every run of `patch` pixels of patch i.
  template <class F> void for_each_run(int64_t i, const F& f) const {
    const int64_t x = i % across(), y = i / across() % down(), image = i / (across() * down());
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t r = 0; r < patch; ++r)
        f(((image * channels + c) * height + y * patch + r) * width + x * patch, (c * patch + r) * patch);
  }
  template <class T> void gather(const T* image, int64_t begin, int64_t end, T* rows) const {
    for (int64_t i = begin; i < end; ++i)
      for_each_run(i, [&](int64_t at, int64_t k) {
        std::copy_n(image + at, patch, rows + (i - begin) * length() + k);
      });
  }
  template <class T> void scatter(const T* rows, int64_t begin, int64_t end, T* image) const {
    for (int64_t i = begin; i < end; ++i)
      for_each_run(i, [&](int64_t at, int64_t k) {
        std::copy_n(rows + (i - begin) * length() + k, patch, image + at);
      });
  }
};

struct Patchify {
  static constexpr const char* name = "patchify";
  static constexpr int64_t tile =
      256;  // patches gathered at a time: a few hundred KB, and enough for a product
  static constexpr int64_t partial = 64;  // terms of a sum
  Tensor x = {}, weight = {};             // each is saved for the other's gradient only
  Tensor patches = {};  // [patches, length], on a GPU; saved in place of x, which would be gathered again
  PatchGrid grid = {};
  Shape shape_of_weight = {};
  Needs needs = {};

  template <class T> static void kernel(Cpu, const PatchGrid& grid, const T* x, T* /*patches*/,
                                        const T* weight, const T* bias, T* y, int64_t dim) {
    const int64_t length = grid.length();
    parallel_for(grid.patches(), one_range_each(grid.patches(), 64), [&](int64_t b, int64_t e) {
      std::vector<T> rows(static_cast<size_t>(std::min(tile, e - b) * length));
      for (int64_t i = b; i < e; i += tile) {
        const int64_t n = std::min(tile, e - i);
        grid.gather(x, i, i + n, rows.data());
        for (int64_t r = i; r < i + n; ++r) std::copy_n(bias, dim, y + r * dim);
        // BLAS adds one term after another, so its rounding error grows with the length of the sum. Every
        // later layer inherits this error (RPC-Attention multiplies it by about ten per iteration), so
        // partial sums are short.
        for (int64_t k = 0; k < length; k += partial) {
          gemm(false, true, n, dim, std::min(partial, length - k), compute_t<T>(1), rows.data() + k, length,
               weight + k, length, compute_t<T>(1), y + i * dim, dim);
        }
      }
    });
  }
  // gx, gw and gb are nullable. gw = gy^T patches: products run one after another, each in parallel, so
  // that the sum has one order. gx: every pixel belongs to one patch, so the products are scattered, not
  // added.
  template <class T> static void gradient(Cpu, const PatchGrid& grid, const T* x, const T* weight,
                                          const T* gy, int64_t dim, T* gx, T* gw, T* gb) {
    using R = compute_t<T>;
    const int64_t length = grid.length(), patches = grid.patches();
    if (gw) {
      const int64_t many = std::min(8 * tile, patches);
      std::vector<T> rows(static_cast<size_t>(many * length));
      std::vector<R> wide;
      std::fill_n(gw, dim * length, T{});
      change_row(gw, dim * length, wide, [&](R* sums) {
        for (int64_t i = 0; i < patches; i += many) {
          const int64_t n = std::min(many, patches - i);
          parallel_for(n, 32,
                       [&](int64_t b, int64_t e) { grid.gather(x, i + b, i + e, rows.data() + b * length); });
          dense_weight_gradient<T>(gy + i * dim, rows.data(), sums, n, length, dim, R(1));
        }
      });
    }
    if (gb) dense_bias_gradient(gy, gb, patches, dim);
    if (!gx) return;
    parallel_for(patches, one_range_each(patches, 64), [&](int64_t b, int64_t e) {
      std::vector<T> part(static_cast<size_t>(std::min(tile, e - b) * length));
      for (int64_t i = b; i < e; i += tile) {
        const int64_t n = std::min(tile, e - i);
        gemm(false, false, n, length, dim, R(1), gy + i * dim, dim, weight, length, R(0), part.data(),
             length);
        grid.scatter(part.data(), i, i + n, gx);
      }
    });
  }
#ifdef PURSUIT_GPU
  template <bool to_images, class T> static void move(const PatchGrid& grid, const T* from, T* to) {
    if (grid.patches() * grid.length() == 0) return;
    cuda::with_pack<T>(grid.patch, {to_images ? to : from}, [&]<int V>() {
      cuda::launch<cuda::patches_kernel<to_images, V, T>>({unsigned(grid.images * grid.down()), 256}, from,
                                                          to, int(grid.channels), int(grid.height),
                                                          int(grid.width), int(grid.patch));
    });
  }
  template <class T> static void kernel(Cuda, const PatchGrid& grid, const T* x, T* patches, const T* weight,
                                        const T* bias, T* y, int64_t dim) {
    move<false>(grid, x, patches);
    cuda::dense<T, T>(static_cast<const T*>(patches), weight, bias, nullptr, y, grid.patches(), grid.length(),
                      dim);
  }
  template <class T> static void gradient(Cuda, const PatchGrid& grid, const T* patches, const T* weight,
                                          const T* gy, int64_t dim, T* gx, T* gw, T* gb) {
    cuda::dense_parameter_gradients<T>(gy, patches, gw, gb, grid.patches(), grid.length(), dim);
    if (!gx) return;
    const cuda::Workspace<T> rows(grid.patches() * grid.length());
    cuda::dense_input_gradient<T>(gy, weight, rows.data(), grid.patches(), grid.length(), dim);
    move<true>(grid, static_cast<const T*>(rows.data()), gx);
  }
#endif

  Tensor forward(const Tensor& images, const Tensor& w, const Tensor& bias) {
    x = images.contiguous();
    weight = w.contiguous();
    const Tensor b = bias.contiguous();
    grid = {x.size(0), x.size(1), x.size(2), x.size(3), weight.size(2)};
    shape_of_weight = weight.shape();
    const int64_t dim = weight.size(0);
    Tensor y = empty({grid.images, grid.down() * grid.across(), dim}, x.dtype(), x.device());
    if (x.device().is_cuda()) patches = empty({grid.patches(), grid.length()}, x.dtype(), x.device());
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<Patchify>(dev, grid, x.data<T>(), patches.defined() ? patches.data<T>() : nullptr,
                       weight.data<T>(), b.data<T>(), y.data<T>(), dim);
    });
    if (!needs[0]) weight = {};
    if (!needs[1]) patches = {};
    if (!needs[1] || patches.defined()) x = {};
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor dy = gy.contiguous();
    const int64_t dim = shape_of_weight[0];
    const auto gradient_of = [&](int input, const Shape& shape) {
      return needs[input] ? empty(shape, gy.dtype(), gy.device()) : Tensor();
    };
    const Tensor gx = gradient_of(0, {grid.images, grid.channels, grid.height, grid.width}),
                 gw = gradient_of(1, shape_of_weight), gb = gradient_of(2, {dim});
    dispatch(dy, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      const auto pointer = [](const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; };
      launch_gradient<Patchify>(dev, grid, static_cast<const T*>(pointer(patches.defined() ? patches : x)),
                                static_cast<const T*>(pointer(weight)), dy.data<T>(), dim, pointer(gx),
                                pointer(gw), pointer(gb));
    });
    return {gx, gw, gb};
  }
  Tensor reference(const Tensor& images, const Tensor& w, const Tensor& bias) const {
    const int64_t p = w.size(2), c = images.size(1), down = images.size(2) / p, across = images.size(3) / p;
    const Tensor patches = images.reshape({images.size(0), c, down, p, across, p})
                               .permute({0, 2, 4, 1, 3, 5})
                               .reshape({images.size(0), down * across, c * p * p});
    return matmul(patches, w.reshape({w.size(0), c * p * p}).transpose(0, 1)) + bias;
  }
  static std::vector<Sample<Patchify>> samples() {
    return {{{}, {{{2, 3, 4, 6}}, {{5, 3, 2, 2}}, {{5}}}},  {{}, {{{1, 1, 8, 4}}, {{33, 1, 4, 4}}, {{33}}}},
            {{}, {{{3, 2, 3, 3}}, {{4, 2, 1, 1}}, {{4}}}},  {{}, {{{2, 3, 16, 8}}, {{6, 3, 8, 8}}, {{6}}}},
            {{}, {{{2, 1, 8, 16}}, {{5, 1, 4, 4}}, {{5}}}}, {{}, {{{0, 3, 4, 4}}, {{5, 3, 2, 2}}, {{5}}}}};
  }
};
PURSUIT_OPERATOR(Patchify)

Tensor patchify(const Tensor& images, const Tensor& weight, const Tensor& bias) {
  const auto all = images.str() + ", weight " + weight.str() + ", bias " + bias.str();
  if (images.ndim() != 4 || weight.ndim() != 4 || bias.ndim() != 1 || images.size(1) != weight.size(1) ||
      weight.size(2) != weight.size(3) || bias.size(0) != weight.size(0) ||
      images.dtype() != weight.dtype() || images.dtype() != bias.dtype() ||
      images.device() != weight.device() || images.device() != bias.device())
    fail("patchify", "got images " + all +
                         ", need [B, C, H, W], [dim, C, patch, patch] and [dim] of one dtype and device");
  if (weight.size(2) < 1 || images.size(2) % weight.size(2) || images.size(3) % weight.size(2))
    fail("patchify",
         "got images " + all + ", need a height and width that patches tile; resize or crop them");
  return apply(Patchify{}, images, weight, bias);
}

}  // namespace pursuit
