#include "engine/ops/quantized.h"

#include <algorithm>
#include <cmath>

#include "cuda/affine_grid.cuh"
#include "cuda/dequantize.cuh"
#include "engine/cpu/int8_kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"

namespace pursuit {

void require_quantizable(const char* where, const Tensor& x) {
  if (!x.defined() || x.dtype() != DType::f32)
    fail(where, "got " + (x.defined() ? x.str() : "an undefined tensor") +
                    ", need f32, in which quantised models run; give --dtype f32");
  if (x.needs_grad() && grad_enabled())
    fail(where, "a quantised model has no gradients; train or attack the model that it was made of");
}

void require_codes(const char* where, const Tensor& codes, const Tensor& scale, const Tensor& x) {
  if (codes.ndim() < 2 || codes.dtype() != DType::i8 || scale.dtype() != DType::f32 ||
      scale.shape() != Shape{codes.size(0)} || codes.device() != scale.device() ||
      (x.defined() && x.device() != codes.device()))
    fail(where, "got codes " + codes.str() + " and scale " + scale.str() +
                    (x.defined() ? " for " + x.str() : "") +
                    ", need i8 [rows, ...] and f32 [rows] on one device");
}

namespace {

void decode(const int8_t* codes, float scale, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] = scale * float(codes[j]);
}

struct FakeQuantize {
  static constexpr const char* name = "fake_quantize";

  static void kernel(Cpu, const Tensor& x, const AffineGrid& grid, const Tensor& y) {
    parallel_for(x.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
      int8_kernels().fake_quantize(x.data<float>() + begin, y.data<float>() + begin, end - begin, grid);
    });
  }
#ifdef PURSUIT_GPU
  struct Rounded {
    AffineGrid grid;
    __device__ float operator()(float x) const { return cuda::rounded(x, grid); }
  };
  static void kernel(Cuda dev, const Tensor& x, const AffineGrid& grid, const Tensor& y) {
    for_each(dev, layout_of(x.shape(), y, x), map_to(y.data<float>(), Rounded{grid}, x.data<float>()));
  }
#endif
};

// One of the codes -2^(bits-1) ... 2^(bits-1) - 1 times the scale.
struct SymmetricallyRounded {
  float lowest, highest;
  HD float operator()(float x, float scale) const {
    const float q = nearbyintf(x / scale), raised = q < lowest ? lowest : q;
    return scale * (raised > highest ? highest : raised);
  }
};

// Rows of codes [rows, dim], or those that ids [count] name.
struct Dequantize {
  static constexpr const char* name = "dequantize";

  static void kernel(Cpu, const int8_t* codes, const float* scale, int64_t rows, const int64_t* ids,
                     int64_t count, int64_t dim, float* y) {
    for (int64_t i = 0; ids && i < count; ++i)
      if (ids[i] < 0 || ids[i] >= rows)
        fail("dequantized_embedding", "id " + std::to_string(i) + " is " + std::to_string(ids[i]) +
                                          ", need 0 to " + std::to_string(rows - 1));
    parallel_for(count, std::max<int64_t>(1, 16384 / (dim + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = ids ? ids[i] : i;
        decode(codes + row * dim, scale[row], y + i * dim, dim);
      }
    });
  }
#ifdef PURSUIT_GPU
  static void kernel(Cuda, const int8_t* codes, const float* scale, int64_t rows, const int64_t* ids,
                     int64_t count, int64_t dim, float* y) {
    if (count * dim == 0) return;
    cuda::launch<cuda::dequantize_kernel>(cuda::by_rows(count, dim), codes, scale, rows, ids, count, dim, y);
  }
#endif
};

}  // namespace

Tensor fake_quantize(const Tensor& in, const AffineGrid& grid) {
  require_quantizable(FakeQuantize::name, in);
  OperatorCall scope(FakeQuantize::name);
  const Tensor x = in.detach().contiguous(), y = empty_like(x);
  dispatch(x.device(), FakeQuantize::name, [&](auto dev) { launch<FakeQuantize>(dev, x, grid, y); });
  scope.end(y);
  return y;
}

Tensor fake_quantize_rows(const Tensor& x, const Tensor& scale, int64_t bits) {
  constexpr const char* name = "fake_quantize_rows";
  require_quantizable(name, x);
  require_defined(name, {&x, &scale});
  if (scale.dtype() != DType::f32 || scale.device() != x.device() ||
      broadcast_shapes(x.shape(), scale.shape(), name) != x.shape() || bits < 2 || bits > 8)
    fail(name, "got " + x.str() + ", scale " + scale.str() + " and " + std::to_string(bits) +
                   " bits, need an f32 scale that broadcasts to the first, and 2 to 8 bits");
  OperatorCall scope(name);
  const Tensor y = empty(x.shape(), DType::f32, x.device());
  const float most = float(1 << (bits - 1));
  dispatch(x.device(), name, [&](auto dev) {
    for_each(
        dev, layout_of(x.shape(), y, x, scale),
        map_to(y.data<float>(), SymmetricallyRounded{-most, most - 1}, x.data<float>(), scale.data<float>()));
  });
  scope.end(y);
  return y;
}

Tensor dequantize(const Tensor& coded, const Tensor& scale) {
  require_codes(Dequantize::name, coded, scale);
  OperatorCall scope(Dequantize::name);
  const Tensor codes = coded.contiguous(), y = empty(codes.shape(), DType::f32, codes.device());
  const int64_t rows = codes.size(0), dim = codes.numel() / std::max<int64_t>(1, rows);
  dispatch(codes.device(), Dequantize::name, [&](auto dev) {
    launch<Dequantize>(dev, codes.data<int8_t>(), scale.data<float>(), rows,
                       static_cast<const int64_t*>(nullptr), rows, dim, y.data<float>());
  });
  scope.end(y);
  return y;
}

Tensor dequantized_embedding(const Tensor& ids, const Tensor& codes, const Tensor& scale) {
  constexpr const char* name = "dequantized_embedding";
  require_codes(name, codes, scale, ids);
  if (codes.ndim() != 2 || is_floating(ids.dtype()))
    fail(name, "got ids " + ids.str() + " and codes " + codes.str() + ", need integers and [vocab, dim]");
  OperatorCall scope(name);
  const Tensor numbers = ids.to(DType::i64).contiguous(), table = codes.contiguous();
  Shape shape = ids.shape();
  shape.push_back(codes.size(1));
  const Tensor y = empty(shape, DType::f32, codes.device());
  dispatch(codes.device(), name, [&](auto dev) {
    launch<Dequantize>(dev, table.data<int8_t>(), scale.data<float>(), table.size(0), numbers.data<int64_t>(),
                       numbers.numel(), table.size(1), y.data<float>());
  });
  scope.end(y);
  return y;
}

}  // namespace pursuit
