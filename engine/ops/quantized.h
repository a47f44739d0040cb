#pragma once
#include <optional>
#include <vector>

#include "engine/ops.h"
#include "engine/sizes/affine_grid.h"

// Operators of quantised models: f32, without autograd. An input that needs a gradient is an error. On a GPU
// what the CPU refuses in the numbers (a NaN without a code, an id or label out of range) gives NaN.
namespace pursuit {

// x on the grid, of x's shape: step (q - zero) with q = clamp(round(x / step) + zero, 0, levels), ties to
// even (Bondarenko et al. 2023, equation 1).
Tensor fake_quantize(const Tensor& x, const AffineGrid& grid);
// x on symmetric grids of 2^bits codes (bits: 2 to 8): scale clamp(round(x / scale)). `scale` broadcasts to
// x's shape.
Tensor fake_quantize_rows(const Tensor& x, const Tensor& scale, int64_t bits);

// The numbers that codes i8 [rows, ...] stand for: scale_i q_i..., f32; scale f32 [rows].
Tensor dequantize(const Tensor& codes, const Tensor& scale);
// The rows of dequantize(codes, scale) that the ids name, [..., dim]; codes [vocab, dim].
Tensor dequantized_embedding(const Tensor& ids, const Tensor& codes, const Tensor& scale);

// A linear layer of integers: the grid of its input, codes i8 [out, in], scale and bias f32 [out], or no
// bias.
struct Int8Layer {
  AffineGrid grid;
  Tensor codes, scale, bias = {};
};
// linear(fake_quantize(x, grid), dequantize(codes, scale), bias) from products of integers, equal up to the
// rounding of f32, of x [..., in]; on the grid `result` if it is given.
Tensor int8_linear(const Tensor& x, const Int8Layer& layer, const std::optional<AffineGrid>& result = {});
// int8_linear(f(int8_linear(x, first)), second, result), some rows at a time.
Tensor int8_mlp(const Tensor& x, const Int8Layer& first, Activation f, const Int8Layer& second,
                const AffineGrid& result);

// log softmax(int8_linear(x, layer))_label of every row of x [rows, in], f32 [rows], by tiles of classes; 0
// where the label, i64 [rows], is negative.
Tensor int8_log_prob(const Tensor& x, const Int8Layer& layer, const Tensor& labels);

// The grids of the tensors inside attention; scores are scale q k^T before the mask.
struct AttentionGrids {
  AffineGrid queries, keys, values, scores, probabilities;
};
// attention(qkv, options) with each of these tensors on its grid; where keys serve as queries, `queries` is
// not used.
Tensor quantized_attention(const Tensor& qkv, const AttentionOptions& options, const AttentionGrids& grids);

// Throw Error unless x is f32 and needs no gradient, and codes and scale belong together, on the device of x
// if it is given.
void require_quantizable(const char* where, const Tensor& x);
void require_codes(const char* where, const Tensor& codes, const Tensor& scale, const Tensor& x = {});

}  // namespace pursuit
