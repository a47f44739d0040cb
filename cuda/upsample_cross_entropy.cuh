#pragma once
#include "cuda/upsample_bilinear.cuh"
#include "engine/sizes/upsampling.h"

#ifdef PURSUIT_GPU
#include "cuda/mean_loss.cuh"

namespace pursuit::cuda {

// The bilinear weights of the four tokens around a pixel.
struct Corners {
  int64_t token[4];  // above left, above right, below left, below right

  __device__ Corners(const Upsampling& s, int64_t image, int64_t row, int64_t col) {
    const int64_t below = row + 1 < s.rows ? row + 1 : row, right = col + 1 < s.cols ? col + 1 : col;
    token[0] = (image * s.rows + row) * s.cols + col;
    token[1] = (image * s.rows + row) * s.cols + right;
    token[2] = (image * s.rows + below) * s.cols + col;
    token[3] = (image * s.rows + below) * s.cols + right;
  }
};

struct CornerWeights {
  float of[4];

  // `up` and `left` are the weights of the row above and of the column to the left.
  __device__ CornerWeights(float up, float left)
      : of{up * left, up * (1 - left), (1 - up) * left, (1 - up) * (1 - left)} {}
  __device__ float mix(const float (&v)[4]) const {
    return of[0] * v[0] + of[1] * v[1] + of[2] * v[2] + of[3] * v[3];
  }
};

constexpr int between_threads = 128, between_warps = between_threads / warp_size;

// A block processes the pixels between four tokens, a warp one pixel at a time, and a lane K of its classes,
// whose logits and gradients at the four tokens it keeps in registers. x [B, rows, cols, classes]; parts [B,
// rows, cols, 4, classes] (nullable) receives the gradient of the summed losses at each block's four tokens.
// A label that is no class nor ignore_index makes all NaN.
template <int K, class T> __global__ void upsample_cross_entropy_kernel(const T* x, const int64_t* labels,
                                                                        Upsampling s, int64_t ignore_index,
                                                                        MeanLoss mean, float* parts) {
  Shared shared;
  float* joined = shared.array<float>(4 * s.classes);
  const int lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  const int64_t col = blockIdx.x % s.cols, row = blockIdx.x / s.cols % s.rows;
  const int64_t image = blockIdx.x / s.cols / s.rows;
  const Axis down{s.rows, s.height}, across{s.cols, s.width};
  const int64_t top = down.first(row), bottom = down.first(row + 1);
  const int64_t left = across.first(col), right = across.first(col + 1);
  const Corners corners(s, image, row, col);

  float logit[K][4], slope[K][4];
#pragma unroll
  for (int k = 0; k < K; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t c = k * warp_size + lane;
      logit[k][i] = c < s.classes ? upcast(x[corners.token[i] * s.classes + c]) : -INFINITY;
      slope[k][i] = 0;
    }

  float loss = 0;
  int64_t counted = 0;
  for (int64_t p = warp; p < (bottom - top) * (right - left); p += between_warps) {
    const int64_t i = top + p / (right - left), j = left + p % (right - left);
    const int64_t given = labels[(image * s.height + i) * s.width + j];
    if (given == ignore_index) continue;
    const int label = given >= 0 && given < s.classes ? int(given) : -1;  // -1: none
    const CornerWeights weights(down.weight(i, row), across.weight(j, col));
    float z[K], most = -FLT_MAX, of_label = 0, sum = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t c = k * warp_size + lane;
      z[k] = c < s.classes ? weights.mix(logit[k]) : -INFINITY;
      most = fmaxf(most, z[k]);
      if (c == label) of_label = z[k];
    }
    most = warp_max(most);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      z[k] = exp_of<T>(z[k] - most);
      sum += z[k];
    }
    sum = warp_sum(sum);
    of_label = label >= 0 ? warp_sum(of_label) - most : NAN;
    loss += logf(sum) - of_label;
    ++counted;
    const float of_exp = of_label == of_label ? 1 / sum : NAN;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const float g = z[k] * of_exp - (k * warp_size + lane == label ? 1.0f : 0.0f);
#pragma unroll
      for (int c = 0; c < 4; ++c) slope[k][c] += weights.of[c] * g;
    }
  }
  mean.add_up(lane == 0 ? loss : 0, lane == 0 ? float(counted) : 0, shared);
  if (!parts) return;
  // One warp after another, for a fixed order.
  for (int turn = 0; turn < between_warps; ++turn) {
    if (warp == turn) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const int64_t c = k * warp_size + lane;
        if (c >= s.classes) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float* to = joined + i * s.classes + c;
          *to = turn == 0 ? slope[k][i] : *to + slope[k][i];
        }
      }
    }
    __syncthreads();
  }
  for (int64_t c = threadIdx.x; c < 4 * s.classes; c += between_threads)
    parts[blockIdx.x * 4 * s.classes + c] = joined[c];
}

// gx [B, rows, cols, classes] = factor times the parts of the up to four blocks around each token.
template <class T> __global__ void upsample_cross_entropy_gradient_kernel(const float* parts, Upsampling s,
                                                                          const float* factor, T* gx) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < s.tokens() * s.classes;
       i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t c = i % s.classes, token = i / s.classes;
    const int64_t col = token % s.cols, row = token / s.cols % s.rows;
    const auto part = [&](int64_t at, int corner) { return parts[(at * 4 + corner) * s.classes + c]; };
    // Corners beyond the lower and right edges have weight 0.
    float sum = part(token, 0);
    if (col > 0) sum += part(token - 1, 1);
    if (row > 0) sum += part(token - s.cols, 2);
    if (row > 0 && col > 0) sum += part(token - s.cols - 1, 3);
    gx[i] = downcast<T>(*factor * sum);
  }
}

template <int K, class T> void upsample_cross_entropy_of(const T* x, const int64_t* labels,
                                                         const Upsampling& s, int64_t ignore_index,
                                                         float* mean, float* scale, float* parts) {
  mean_of_losses({unsigned(s.tokens()), between_threads, shared_size<float>(4 * s.classes)}, mean, scale,
                 [&](const Grid& grid, const MeanLoss& losses) {
                   launch<upsample_cross_entropy_kernel<K, T>>(grid, x, labels, s, ignore_index, losses,
                                                               parts);
                 });
}

template <class T> void upsample_cross_entropy(const T* x, const int64_t* labels, const Upsampling& s,
                                               int64_t ignore_index, float* mean, float* scale,
                                               float* parts) {
  constexpr int64_t most_classes = 16 * warp_size;  // that fit in registers
  if (s.classes > most_classes)
    fail("upsample_cross_entropy", "got " + std::to_string(s.classes) + " classes, need at most " +
                                       std::to_string(most_classes) + " on a GPU; use the CPU");
  const auto of = [&]<int K> {
    upsample_cross_entropy_of<K>(x, labels, s, ignore_index, mean, scale, parts);
  };
  if (s.classes <= 2 * warp_size)
    of.template operator()<2>();
  else if (s.classes <= 5 * warp_size)
    of.template operator()<5>();
  else if (s.classes <= 8 * warp_size)
    of.template operator()<8>();
  else
    of.template operator()<16>();
}

}  // namespace pursuit::cuda
#endif
