#include "engine/ops/quantized.h"

#include <algorithm>

#include "engine/cpu/parallel.h"
#include "engine/operator/operator.h"

namespace pursuit {

void require_quantizable(const char* where, const Tensor& x) {
  if (!x.defined() || x.dtype() != DType::f32 || x.device().is_cuda())
    fail(where, "got " + (x.defined() ? x.str() : "an undefined tensor") +
                    ", need f32 on the CPU, where quantised models run; give --device cpu and --dtype f32");
  if (x.needs_grad() && grad_enabled())
    fail(where, "a quantised model has no gradients; train or attack the model that it was made of");
}

void require_codes(const char* where, const Tensor& codes, const Tensor& scale) {
  if (codes.ndim() < 2 || codes.dtype() != DType::i8 || scale.dtype() != DType::f32 ||
      scale.shape() != Shape{codes.size(0)} || codes.device().is_cuda() || scale.device().is_cuda())
    fail(where, "got codes " + codes.str() + " and scale " + scale.str() +
                    ", need i8 [rows, ...] and f32 [rows] on the CPU");
}

namespace {

void decode(const int8_t* codes, float scale, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] = scale * float(codes[j]);
}

}  // namespace

Tensor fake_quantize(const Tensor& in, const AffineGrid& grid) {
  require_quantizable("fake_quantize", in);
  OperatorCall scope("fake_quantize");
  const Tensor x = in.detach().contiguous(), y = empty_like(x);
  dispatch(x.device(), "fake_quantize", [&](auto) {
    parallel_for(x.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
      int8_kernels().fake_quantize(x.data<float>() + begin, y.data<float>() + begin, end - begin, grid);
    });
  });
  scope.end(y);
  return y;
}

Tensor dequantize(const Tensor& coded, const Tensor& scale) {
  require_codes("dequantize", coded, scale);
  OperatorCall scope("dequantize");
  const Tensor codes = coded.contiguous(), y = empty(codes.shape(), DType::f32);
  const int64_t rows = codes.size(0), n = codes.numel() / std::max<int64_t>(1, rows);
  dispatch(cpu, "dequantize", [&](auto) {
    parallel_for(rows, std::max<int64_t>(1, 16384 / (n + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        decode(codes.data<int8_t>() + i * n, scale.data<float>()[i], y.data<float>() + i * n, n);
    });
  });
  scope.end(y);
  return y;
}

Tensor dequantized_embedding(const Tensor& ids, const Tensor& codes, const Tensor& scale) {
  require_codes("dequantized_embedding", codes, scale);
  if (codes.ndim() != 2 || is_floating(ids.dtype()) || ids.device().is_cuda())
    fail("dequantized_embedding", "got ids " + ids.str() + " and codes " + codes.str() +
                                      ", need integers on the CPU and [vocab, dim]");
  OperatorCall scope("dequantized_embedding");
  const Tensor numbers = ids.to(DType::i64).contiguous(), table = codes.contiguous();
  const int64_t vocab = codes.size(0), dim = codes.size(1);
  Shape shape = ids.shape();
  shape.push_back(dim);
  const Tensor y = empty(shape, DType::f32);
  dispatch(cpu, "dequantized_embedding", [&](auto) {
    const int64_t* id = numbers.data<int64_t>();
    for (int64_t i = 0; i < numbers.numel(); ++i) {
      if (id[i] < 0 || id[i] >= vocab)
        fail("dequantized_embedding", "id " + std::to_string(i) + " is " + std::to_string(id[i]) +
                                          ", need 0 to " + std::to_string(vocab - 1));
      decode(table.data<int8_t>() + id[i] * dim, scale.data<float>()[id[i]], y.data<float>() + i * dim, dim);
    }
  });
  scope.end(y);
  return y;
}

}  // namespace pursuit
