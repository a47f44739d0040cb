#include "engine/ops/quantized.h"

#include <algorithm>

#include "engine/cpu/kept_factors.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/rows.h"
#include "engine/cpu/scratch.h"
#include "engine/cpu/work.h"
#include "engine/operator/operator.h"

namespace pursuit {

namespace {

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

void decode(const int8_t* codes, float scale, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] = scale * float(codes[j]);
}

constexpr int64_t encoded_rows = 96;  // together: their codes stay in the L2 cache

// The weight as Int8Kernels::pack lays it out.
class PackedWeight {
 public:
  PackedWeight(const Tensor& codes, int64_t out, int64_t in) {
    const Int8Kernels& kernels = int8_kernels();
    const int64_t size = kernels.packed_size(out, in), parts = num_threads();
    const auto pack = [&](void* to) {
      parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part)
          kernels.pack(out, in, codes.data<int8_t>(), in, part, parts, to);
      });
    };
    kept_ = kept_factor({codes.raw(), in, in, out, true}, size, pack);
    packed_ = kept_ ? kept_.get() : scratch<char>(4, size);
    if (!kept_) pack(packed_);
  }
  const void* get() const { return packed_; }

 private:
  Storage kept_;
  void* packed_;
};

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

Tensor int8_linear(const Tensor& given, const AffineGrid& grid, const Tensor& codes, const Tensor& scale,
                   const Tensor& bias) {
  constexpr const char* name = "int8_linear";
  require_quantizable(name, given);
  require_codes(name, codes, scale);
  if (codes.ndim() != 2 || given.ndim() < 1 || given.size(-1) != codes.size(1) ||
      codes.size(1) > deepest_int8_product ||
      (bias.defined() && (bias.shape() != scale.shape() || bias.dtype() != DType::f32)))
    fail(name, "got x " + given.str() + ", codes " + codes.str() +
                   ", need [..., in] and [out, in] with in up to " + std::to_string(deepest_int8_product) +
                   ", and a bias f32 [out] if any");
  OperatorCall scope(name);
  const Tensor x = given.detach().contiguous(), weight = codes.contiguous(),
               b = bias.defined() ? bias.detach().contiguous() : Tensor();
  Shape shape = x.shape();
  shape.back() = codes.size(0);
  const Tensor y = empty(shape, DType::f32);
  const int64_t in = codes.size(1), out = codes.size(0), rows = y.numel() / std::max<int64_t>(1, out);
  dispatch(cpu, name, [&](auto) {
    if (y.numel() == 0) return;
    if (in == 0) {
      for (int64_t i = 0; i < y.numel(); ++i) y.data<float>()[i] = b.defined() ? b.data<float>()[i % out] : 0;
      return;
    }
    count_multiply_adds(rows * out * in);
    const Int8Kernels& kernels = int8_kernels();
    const PackedWeight packed(weight, out, in);
    float* const factors = scratch<float>(5, out);
    for (int64_t j = 0; j < out; ++j) factors[j] = grid.step * scale.data<float>()[j];
    const float* const biases = b.defined() ? b.data<float>() : nullptr;
    const auto encoded = [&](int64_t row, int64_t m) {
      void* const to = scratch<char>(6, kernels.coded_size(m, in));
      if (!kernels.encode(x.data<float>() + row * in, m, in, in, grid, to))
        fail(name, "an activation is NaN, which has no code; the model's weights or input are damaged");
      return to;
    };
    if (rows <= most_few_rows) {  // every thread reads some of the weight
      const void* const all = encoded(0, rows);
      const int64_t parts = std::clamp<int64_t>(out / 64, 1, 4 * num_threads());
      parallel_for(parts, std::max<int64_t>(1, parts * 32768 / (out * in)), [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part)
          kernels.gemm_scaled(rows, out, in, all, grid.zero, packed.get(), part, parts, factors, biases,
                              y.data<float>(), out);
      });
      return;
    }
    const int64_t blocks = (rows + encoded_rows - 1) / encoded_rows,
                  pieces = std::max<int64_t>(blocks, num_threads());
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t row = rows * piece / pieces, m = rows * (piece + 1) / pieces - row;
        if (m > 0)
          kernels.gemm_scaled(m, out, in, encoded(row, m), grid.zero, packed.get(), 0, 1, factors, biases,
                              y.data<float>() + row * out, out);
      }
    });
  });
  scope.end(y);
  return y;
}

}  // namespace pursuit
