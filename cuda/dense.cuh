#pragma once
#include "cuda/column_sums.cuh"
#include "cuda/gemm.h"

// The three products of a linear layer on the GPU: x [rows, in], w [out, in], y [rows, out], all contiguous.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// y = x w^T + bias + residual; bias [out] and residual [rows, out] may be null.
template <class T, class Y> void dense(const T* x, const T* w, const T* bias, const Y* residual, Y* y,
                                       int64_t rows, int64_t in, int64_t out) {
  gemm({.factors = dtype_of<T>(),
        .result = dtype_of<Y>(),
        .m = rows,
        .n = out,
        .k = in,
        .a = x,
        .lda = in,
        .b = w,
        .ldb = in,
        .tb = true,
        .d = y,
        .ldd = out,
        .c = residual,
        .ldc = out,
        .bias = bias});
}

// gx = gy w
template <class T>
void dense_input_gradient(const T* gy, const T* w, T* gx, int64_t rows, int64_t in, int64_t out) {
  gemm({.factors = dtype_of<T>(),
        .result = dtype_of<T>(),
        .m = rows,
        .n = in,
        .k = out,
        .a = gy,
        .lda = out,
        .b = w,
        .ldb = in,
        .d = gx,
        .ldd = in});
}

// gw = gy^T x and gb = sum of gy's rows; either may be null.
template <class T>
void dense_parameter_gradients(const T* gy, const T* x, T* gw, T* gb, int64_t rows, int64_t in, int64_t out) {
  if (!gw) {
    if (gb) column_sums(gy, gb, rows, out);
    return;
  }
  gemm({.factors = dtype_of<T>(),
        .result = dtype_of<T>(),
        .m = out,
        .n = in,
        .k = rows,
        .a = gy,
        .lda = out,
        .ta = true,
        .b = x,
        .ldb = in,
        .d = gw,
        .ldd = in,
        .row_sums = gb});
}

}  // namespace pursuit::cuda
#endif
