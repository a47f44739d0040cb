#pragma once
#include <algorithm>

#include "engine/cpu/packed.h"

// The three products of a linear layer y = x w^T on the CPU, split over threads so that every sum runs in one
// thread: the results do not depend on their number. x [rows, in], w [out, in], y [rows, out], all
// contiguous.
namespace pursuit {

// Rows a thread handles at a time: their outputs are still in the L2 cache when the next step reads them.
constexpr int64_t dense_chunk = 256;

template <class F>
void for_each_chunk(int64_t rows, const F& body) {
  parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r += dense_chunk) body(r, std::min(dense_chunk, end - r));
  });
}

// gx = gy w
template <class T>
void dense_input_gradient(const T* gy, const T* w, T* gx, int64_t rows, int64_t in, int64_t out) {
  parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    gemm(false, false, end - begin, in, out, compute_t<T>(1), gy + begin * out, out, w, in, compute_t<T>(0),
         gx + begin * in, in);
  });
}

// gw = gy^T x
template <class T>
void dense_weight_gradient(const T* gy, const T* x, T* gw, int64_t rows, int64_t in, int64_t out) {
  parallel_for(out, 16, [&](int64_t begin, int64_t end) {
    gemm(true, false, end - begin, in, rows, compute_t<T>(1), gy + begin, out, x, in, compute_t<T>(0),
         gw + begin * in, in);
  });
}

// gb = sum of gy's rows
template <class T>
void dense_bias_gradient(const T* gy, T* gb, int64_t n, int64_t out) {
  using R = compute_t<T>;
  parallel_for(out, 64, [&](int64_t begin, int64_t end) {
    const int64_t width = end - begin;
    if constexpr (std::is_same_v<T, bf16>) {
      R* sum = scratch<R>(0, 2 * width);
      std::fill_n(sum, width, R(0));
      for (int64_t i = 0; i < n; ++i) {
        rows<R>().bf16_to_f32(words(gy + i * out + begin), sum + width, width);
        rows<R>().axpy(R(1), sum + width, sum, width);
      }
      rows<R>().f32_to_bf16(sum, words(gb + begin), width);
    } else {
      rows<R>().column_sums(gy + begin, n, width, out, gb + begin, false);
    }
  });
}

}  // namespace pursuit
