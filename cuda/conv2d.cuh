#pragma once
#include <algorithm>

#include "cuda/gemm.h"
#include "cuda/launch.h"
#include "cuda/workspace.h"
#include "engine/sizes/window.h"

// Convolutions as products with unfolded images (im2col): columns [channels x taps, images x positions], for
// as many images at a time as fit into the workspace. Depthwise convolutions have their own kernels. Sums are
// f32 and rounded once; none uses atomics.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

constexpr int64_t unfolded_most = int64_t(1) << 26;  // elements of columns: 256 MB of f32

// columns [channels x taps, pictures x positions] of x [pictures, channels, h, w].
template <class T> __global__ void unfold_kernel(const T* x, ConvShape s, int64_t pictures, T* columns) {
  const int64_t cols = pictures * s.positions(), all = s.channels * s.taps() * cols;
  for (int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; e < all;
       e += int64_t(gridDim.x) * blockDim.x) {
    const int64_t k = e / cols, n = e % cols / s.positions(), p = e % cols % s.positions();
    const int64_t tap = k % s.taps(), i = s.h.at(p / s.across, tap / s.w.kernel),
                  j = s.w.at(p % s.across, tap % s.w.kernel);
    columns[e] = s.h.holds(i) && s.w.holds(j)
                     ? x[(n * s.channels + k / s.taps()) * s.picture() + i * s.w.size + j]
                     : downcast<T>(0.0f);
  }
}

// The window whose tap t is pixel i, or -1.
__device__ inline int64_t window_at(const Windows& w, int64_t i, int64_t t, int64_t count) {
  const int64_t from = i + w.padding - t * w.dilation;
  return from >= 0 && from % w.stride == 0 && from / w.stride < count ? from / w.stride : -1;
}

// Each pixel of gx sums the columns that contain it, in the order of the taps (col2im).
template <class T> __global__ void fold_kernel(const float* columns, ConvShape s, int64_t pictures, T* gx) {
  const int64_t cols = pictures * s.positions(), all = pictures * s.channels * s.picture();
  for (int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; e < all;
       e += int64_t(gridDim.x) * blockDim.x) {
    const int64_t at = e % s.picture(), c = e / s.picture() % s.channels, n = e / s.picture() / s.channels;
    float sum = 0;
    for (int64_t i = 0; i < s.h.kernel; ++i) {
      const int64_t row = window_at(s.h, at / s.w.size, i, s.down);
      if (row < 0) continue;
      for (int64_t j = 0; j < s.w.kernel; ++j) {
        const int64_t col = window_at(s.w, at % s.w.size, j, s.across);
        if (col < 0) continue;
        const int64_t k = c * s.taps() + i * s.w.kernel + j;
        sum += columns[k * cols + n * s.positions() + row * s.across + col];
      }
    }
    gx[e] = downcast<T>(sum);
  }
}

// y [pictures, channels, size] = the channel's bias.
template <class T>
__global__ void start_channels_kernel(const T* bias, T* y, int64_t channels, int64_t size, int64_t all) {
  for (int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; e < all;
       e += int64_t(gridDim.x) * blockDim.x)
    y[e] = bias[e / size % channels];
}

// to [channels, pictures, size] = from [pictures, channels, size].
template <class T> __global__ void channels_first_kernel(const T* from, T* to, int64_t pictures,
                                                         int64_t channels, int64_t size) {
  const int64_t all = pictures * channels * size;
  for (int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; e < all;
       e += int64_t(gridDim.x) * blockDim.x) {
    const int64_t n = e / size % pictures, c = e / size / pictures;
    to[e] = from[(n * channels + c) * size + e % size];
  }
}

template <class T>
__global__ void depthwise_kernel(const T* x, const T* weight, const T* bias, ConvShape s, T* y) {
  const int64_t all = s.batch * s.channels * s.positions();
  for (int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; e < all;
       e += int64_t(gridDim.x) * blockDim.x) {
    const int64_t plane = e / s.positions(), c = plane % s.channels, p = e % s.positions();
    float sum = bias ? upcast(bias[c]) : 0.0f;
    for (int64_t i = 0; i < s.h.kernel; ++i) {
      const int64_t row = s.h.at(p / s.across, i);
      if (!s.h.holds(row)) continue;
      for (int64_t j = 0; j < s.w.kernel; ++j) {
        const int64_t col = s.w.at(p % s.across, j);
        if (s.w.holds(col))
          sum += upcast(weight[c * s.taps() + i * s.w.kernel + j]) *
                 upcast(x[plane * s.picture() + row * s.w.size + col]);
      }
    }
    y[e] = downcast<T>(sum);
  }
}

template <class T>
__global__ void depthwise_input_gradient_kernel(const T* gy, const T* weight, ConvShape s, T* gx) {
  const int64_t all = s.batch * s.channels * s.picture();
  for (int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; e < all;
       e += int64_t(gridDim.x) * blockDim.x) {
    const int64_t plane = e / s.picture(), c = plane % s.channels, at = e % s.picture();
    float sum = 0;
    for (int64_t i = 0; i < s.h.kernel; ++i) {
      const int64_t row = window_at(s.h, at / s.w.size, i, s.down);
      if (row < 0) continue;
      for (int64_t j = 0; j < s.w.kernel; ++j) {
        const int64_t col = window_at(s.w, at % s.w.size, j, s.across);
        if (col >= 0)
          sum += upcast(weight[c * s.taps() + i * s.w.kernel + j]) *
                 upcast(gy[plane * s.positions() + row * s.across + col]);
      }
    }
    gx[e] = downcast<T>(sum);
  }
}

// One block per weight.
template <class T>
__global__ void depthwise_weight_gradient_kernel(const T* x, const T* gy, ConvShape s, T* gw) {
  Shared shared;
  float* part = shared.array<float>(warp_size);
  const int64_t c = blockIdx.x / s.taps(), tap = blockIdx.x % s.taps();
  float sum = 0;
  for (int64_t e = threadIdx.x; e < s.batch * s.positions(); e += blockDim.x) {
    const int64_t plane = e / s.positions() * s.channels + c, p = e % s.positions();
    const int64_t row = s.h.at(p / s.across, tap / s.w.kernel), col = s.w.at(p % s.across, tap % s.w.kernel);
    if (s.h.holds(row) && s.w.holds(col))
      sum += upcast(gy[plane * s.positions() + p]) * upcast(x[plane * s.picture() + row * s.w.size + col]);
  }
  sum = block_sum(sum, part);
  if (threadIdx.x == 0) gw[blockIdx.x] = downcast<T>(sum);
}

template <class T> __global__ void round_kernel(const float* from, T* to, int64_t n) {
  for (int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; e < n;
       e += int64_t(gridDim.x) * blockDim.x)
    to[e] = downcast<T>(from[e]);
}

// Calls f(first image, images) for slices of the batch whose columns fit into the workspace.
template <class F> void for_each_slice(const ConvShape& s, const F& f) {
  const int64_t of_picture = std::max<int64_t>(1, s.channels * s.taps() * s.positions()),
                many = std::max<int64_t>(1, unfolded_most / of_picture);
  for (int64_t n = 0; n < s.batch; n += many) f(n, std::min(many, s.batch - n));
}

template <class T> Workspace<T> unfolded(const ConvShape& s, const T* x, int64_t pictures) {
  const int64_t all = s.channels * s.taps() * pictures * s.positions();
  Workspace<T> columns(all);
  if (all) launch<unfold_kernel<T>>({blocks_for(all, 256), 256}, x, s, pictures, columns.data());
  return columns;
}

template <class T> void convolve(const ConvShape& s, const T* x, const T* weight, const T* bias, T* y) {
  const int64_t all = s.batch * s.out * s.positions();
  if (all == 0) return;
  if (s.depthwise()) return launch<depthwise_kernel<T>>({blocks_for(all, 256), 256}, x, weight, bias, s, y);
  if (bias) launch<start_channels_kernel<T>>({blocks_for(all, 256), 256}, bias, y, s.out, s.positions(), all);
  for_each_slice(s, [&](int64_t n, int64_t pictures) {
    const T* from = x + n * s.channels * s.picture();
    const auto columns = s.pointwise() ? Workspace<T>() : unfolded(s, from, pictures);
    const int64_t cols = s.pointwise() ? s.positions() : pictures * s.positions();
    const T* right = s.pointwise() ? from : columns.data();
    T* to = y + n * s.out * s.positions();
    for (int64_t g = 0; g < s.groups; ++g) {
      T* d = to + g * s.group_out() * s.positions();
      gemm({.factors = dtype_of<T>(),
            .result = dtype_of<T>(),
            .m = s.group_out(),
            .n = s.positions(),
            .k = s.depth(),
            .a = weight + g * s.group_out() * s.depth(),
            .lda = s.depth(),
            .b = right + g * s.depth() * cols,
            .ldb = cols,
            .d = d,
            .ldd = s.positions(),
            .c = bias ? d : nullptr,
            .ldc = s.positions(),
            .batch = pictures,
            .stride_b = s.pointwise() ? s.channels * s.positions() : s.positions(),
            .stride_c = s.out * s.positions(),
            .stride_d = s.out * s.positions()});
    }
  });
}

template <class T> void convolve_input_gradient(const ConvShape& s, const T* gy, const T* weight, T* gx) {
  const int64_t all = s.batch * s.channels * s.picture();
  if (all == 0) return;
  if (s.depthwise())
    return launch<depthwise_input_gradient_kernel<T>>({blocks_for(all, 256), 256}, gy, weight, s, gx);
  for_each_slice(s, [&](int64_t n, int64_t pictures) {
    const int64_t cols = pictures * s.positions(), size = pictures * s.channels * s.picture();
    const Workspace<float> columns(s.channels * s.taps() * cols);
    for (int64_t g = 0; g < s.groups; ++g)
      gemm({.factors = dtype_of<T>(),
            .result = DType::f32,
            .m = s.depth(),
            .n = s.positions(),
            .k = s.group_out(),
            .a = weight + g * s.group_out() * s.depth(),
            .lda = s.depth(),
            .ta = true,
            .b = gy + (n * s.out + g * s.group_out()) * s.positions(),
            .ldb = s.positions(),
            .d = columns.data() + g * s.depth() * cols,
            .ldd = cols,
            .batch = pictures,
            .stride_b = s.out * s.positions(),
            .stride_d = s.positions()});
    launch<fold_kernel<T>>({blocks_for(size, 256), 256}, static_cast<const float*>(columns.data()), s,
                           pictures, gx + n * s.channels * s.picture());
  });
}

// The slices' contributions are accumulated in f32.
template <class T> void convolve_weight_gradient(const ConvShape& s, const T* x, const T* gy, T* gw) {
  const int64_t all = s.out * s.depth();
  if (all == 0) return;
  if (s.depthwise())
    return launch<depthwise_weight_gradient_kernel<T>>({unsigned(all), 256, shared_size<float>(warp_size)}, x,
                                                       gy, s, gw);
  const Workspace<float> sums(all);
  float* sum = sums.data();
  if (s.batch == 0) fill_zero(sum, current_device(), size_t(all) * sizeof(float));
  for_each_slice(s, [&](int64_t n, int64_t pictures) {
    const int64_t cols = pictures * s.positions();
    const Workspace<T> columns = unfolded(s, x + n * s.channels * s.picture(), pictures),
                       by_channel(s.out * cols);
    T* rows = by_channel.data();
    launch<channels_first_kernel<T>>({blocks_for(s.out * cols, 256), 256}, gy + n * s.out * s.positions(),
                                     rows, pictures, s.out, s.positions());
    for (int64_t g = 0; g < s.groups; ++g) {
      float* d = sum + g * s.group_out() * s.depth();
      gemm({.factors = dtype_of<T>(),
            .result = DType::f32,
            .m = s.group_out(),
            .n = s.depth(),
            .k = cols,
            .a = rows + g * s.group_out() * cols,
            .lda = cols,
            .b = columns.data() + g * s.depth() * cols,
            .ldb = cols,
            .tb = true,
            .d = d,
            .ldd = s.depth(),
            .c = n > 0 ? d : nullptr,
            .ldc = s.depth()});
    }
  });
  launch<round_kernel<T>>({blocks_for(all, 256), 256}, static_cast<const float*>(sum), gw, all);
}

}  // namespace pursuit::cuda
#endif
