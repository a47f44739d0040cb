#pragma once
#include <vector>

#include "engine/cpu/int8_kernels.h"
#include "engine/ops.h"

// Operators of quantised models: f32 on the CPU, without autograd. An input that needs a gradient is an
// error.
namespace pursuit {

// x on the grid, of x's shape: step (q - zero) with q = clamp(round(x / step) + zero, 0, levels), ties to
// even (Bondarenko et al. 2023, equation 1).
Tensor fake_quantize(const Tensor& x, const AffineGrid& grid);

// The numbers that codes i8 [rows, ...] stand for: scale_i q_i..., f32; scale f32 [rows].
Tensor dequantize(const Tensor& codes, const Tensor& scale);
// The rows of dequantize(codes, scale) that the ids name, [..., dim]; codes [vocab, dim].
Tensor dequantized_embedding(const Tensor& ids, const Tensor& codes, const Tensor& scale);

// linear(fake_quantize(x, grid), dequantize(codes, scale), bias) from products of integers, equal up to the
// rounding of f32: x [..., in], codes i8 [out, in], scale and bias f32 [out] or no bias. Throws if x has NaN.
Tensor int8_linear(const Tensor& x, const AffineGrid& grid, const Tensor& codes, const Tensor& scale,
                   const Tensor& bias = {});

// The grids of the tensors inside attention; scores are scale q k^T before the mask.
struct AttentionGrids {
  AffineGrid queries, keys, values, scores, probabilities;
};
// attention(qkv, options) with each of these tensors on its grid; where keys serve as queries, `queries` is
// not used.
Tensor quantized_attention(const Tensor& qkv, const AttentionOptions& options, const AttentionGrids& grids);

}  // namespace pursuit
