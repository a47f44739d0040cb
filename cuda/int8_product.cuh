#pragma once
#include <optional>

#include "cuda/affine_grid.cuh"
#include "cuda/gemm.h"
#include "cuda/launch.h"
#include "cuda/pack.h"
#include "cuda/workspace.h"

// Linear layers of integers by cuBLASLt, which multiplies signed codes: q - 128 for the code q. The matrix of
// codes has another row, the codes of 0, and its products are what zero points add to those of other rows:
//   sum_k (q_ik - zero) w_jk = sum_k (q_ik - 128) w_jk - sum_k (zero - 128) w_jk.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// Rows of codes begin 16 bytes apart, and results have as many columns: the library wants multiples of 4.
constexpr int64_t int8_multiple = 16;
inline int64_t whole_int8(int64_t n) { return (n + int8_multiple - 1) / int8_multiple * int8_multiple; }

// codes [m + 1, ld] of x [m, k], a warp a row, with 0 beyond k; damaged [m]: NaN for a row with a NaN, which
// has no code, else 0.
static __global__ void encode_kernel(const float* x, int64_t m, int64_t k, AffineGrid grid, int8_t* codes,
                                     int64_t ld, float* damaged) {
  const int warps = int(blockDim.x) / warp_size, lane = int(threadIdx.x) % warp_size;
  for (int64_t i = int64_t(blockIdx.x) * warps + int(threadIdx.x) / warp_size; i <= m;
       i += int64_t(gridDim.x) * warps) {
    bool nan = false;
    for (int64_t j = 4 * lane; j < ld; j += 4 * warp_size) {
      Pack<int8_t, 4> pack;
      for (int v = 0; v < 4; ++v) {
        const float value = i < m && j + v < k ? x[i * k + j + v] : 0;
        nan |= value != value;
        const int code = value == value ? int(steps_of(value, grid)) + grid.zero : 0;
        pack.v[v] = int8_t(j + v < k ? code - 128 : 0);
      }
      store_pack(codes + i * ld + j, pack);
    }
    nan = __any_sync(all_lanes, nan);
    if (lane == 0 && i < m) damaged[i] = nan ? NAN : 0;
  }
}

// to [whole_int8(n), ld] = w [n, k], with 0 beside and below.
static __global__ void pad_codes_kernel(const int8_t* w, int64_t n, int64_t k, int8_t* to, int64_t rows,
                                        int64_t ld) {
  for (int64_t i = blockIdx.y; i < rows; i += gridDim.y)
    for (int64_t j = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; j < ld;
         j += int64_t(gridDim.x) * blockDim.x)
      to[i * ld + j] = i < n && j < k ? w[i * k + j] : int8_t(0);
}

// y_ij [m, n] = step scale_j (c_ij - c_mj) + bias_j of sums c [m + 1, ldc], rounded to `result` if `rounds`;
// NaN in damaged rows. bias is nullable.
static __global__ void scale_sums_kernel(const int32_t* c, int64_t ldc, int64_t m, int64_t n, float step,
                                         const float* scale, const float* bias, const float* damaged,
                                         bool rounds, AffineGrid result, float* y) {
  for (int64_t i = blockIdx.y; i < m; i += gridDim.y)
    for (int64_t j = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; j < n;
         j += int64_t(gridDim.x) * blockDim.x) {
      const float product = step * scale[j] * float(c[i * ldc + j] - c[m * ldc + j]) + damaged[i];
      const float sum = bias ? product + bias[j] : product;
      y[i * n + j] = rounds ? rounded(sum, result) : sum;
    }
}

// Codes [n, k] as the library takes them: where they are, or copied.
struct PaddedCodes {
  Workspace<int8_t> copy;
  const int8_t* data;

  PaddedCodes(const int8_t* w, int64_t n, int64_t k) : data(w) {
    if (n % int8_multiple == 0 && k % int8_multiple == 0 && aligned(w)) return;
    const int64_t rows = whole_int8(n), ld = whole_int8(k);
    copy = Workspace<int8_t>(rows * ld);
    launch<pad_codes_kernel>(by_rows(rows, ld), w, n, k, copy.data(), rows, ld);
    data = copy.data();
  }
};

// y [m, n] of x [m, k] and codes [n, k], n > 0 and k > 0.
inline void int8_product(const float* x, int64_t m, AffineGrid grid, const int8_t* codes, int64_t n,
                         int64_t k, const float* scale, const float* bias,
                         const std::optional<AffineGrid>& result, float* y) {
  const int64_t ld = whole_int8(k), columns = whole_int8(n);
  const Workspace<int8_t> coded((m + 1) * ld);
  const Workspace<float> damaged(m);
  const Workspace<int32_t> sums((m + 1) * columns);
  constexpr int warps = 4;
  launch<encode_kernel>({blocks_for(m + 1, warps), warps * warp_size}, x, m, k, grid, coded.data(), ld,
                        damaged.data());
  const PaddedCodes weight(codes, n, k);
  gemm({.factors = DType::i8,
        .result = DType::i32,
        .m = m + 1,
        .n = columns,
        .k = ld,
        .a = coded.data(),
        .lda = ld,
        .b = weight.data,
        .ldb = ld,
        .tb = true,
        .d = sums.data(),
        .ldd = columns,
        .beta = 0});
  launch<scale_sums_kernel>(by_rows(m, n), sums.data(), columns, m, n, grid.step, scale, bias, damaged.data(),
                            result.has_value(), result.value_or(AffineGrid{}), y);
}

}  // namespace pursuit::cuda
#endif
