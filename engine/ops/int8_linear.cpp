#include <algorithm>
#include <cmath>

#include "cuda/int8_product.cuh"
#include "engine/cpu/int8_kernels.h"
#include "engine/cpu/kept_factors.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/rows.h"
#include "engine/cpu/scratch.h"
#include "engine/cpu/work.h"
#include "engine/operator/operator.h"
#include "engine/ops/quantized.h"

namespace pursuit {

namespace {

// Rows that a thread takes through all steps at a time: their codes and numbers stay in the L2 cache.
constexpr int64_t most_rows = 96, least_rows = 16, most_numbers = 1 << 17;

void require_layer(const char* name, const Int8Layer& layer, const Tensor& x) {
  require_quantizable(name, x);
  require_codes(name, layer.codes, layer.scale, x);
  if (layer.codes.ndim() != 2 || layer.codes.size(1) > deepest_int8_product ||
      (layer.bias.defined() &&
       (layer.bias.shape() != layer.scale.shape() || layer.bias.dtype() != DType::f32 ||
        layer.bias.device() != layer.codes.device())))
    fail(name, "got codes " + layer.codes.str() + ", need [out, in] with in up to " +
                   std::to_string(deepest_int8_product) + ", and a bias f32 [out] if any");
}

// x W^T + b of a layer. Its weight, as Int8Kernels::pack lays it out, and its factors are made once for all
// threads, in the calling thread's scratch slots `slot` and `slot` + 1; a row's codes are in slot 6.
class Product {
 public:
  Product(const char* name, const Int8Layer& layer, int slot)
      : name_(name),
        grid_(layer.grid),
        codes_(layer.codes.contiguous()),
        in_(codes_.size(1)),
        out_(codes_.size(0)) {
    if (layer.bias.defined()) bias_ = layer.bias.detach().contiguous();
    if (in_ == 0 || out_ == 0) return;
    pack(slot);
    float* const factors = scratch<float>(slot + 1, out_);
    const Tensor scale = layer.scale.contiguous();
    const float* const scales = scale.data<float>();
    for (int64_t j = 0; j < out_; ++j) factors[j] = grid_.step * scales[j];
    factors_ = factors;
  }

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

  // The codes of m rows of x.
  const void* encoded(const float* x, int64_t m) const {
    void* const to = scratch<char>(6, kernels_.coded_size(m, in_));
    if (!kernels_.encode(x, m, in_, in_, grid_, to))
      fail(name_, "an activation is NaN, which has no code; the model's weights or input are damaged");
    return to;
  }

  // y [m, out], or the columns of part `part` of `parts` of it.
  void multiply(int64_t m, const void* codes, int64_t part, int64_t parts, float* y) const {
    kernels_.gemm_scaled(m, out_, in_, codes, grid_.zero, packed_, part, parts, factors_, biases(), y, out_);
  }
  void multiply(int64_t m, const float* x, float* y) const {
    if (in_ > 0)
      multiply(m, encoded(x, m), 0, 1, y);
    else
      for (int64_t i = 0; i < m * out_; ++i) y[i] = biases() ? biases()[i % out_] : 0;
  }

 private:
  const float* biases() const { return bias_.defined() ? bias_.data<float>() : nullptr; }

  void pack(int slot) {
    const int64_t size = kernels_.packed_size(out_, in_), parts = num_threads();
    const auto fill = [&](void* to) {
      parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part)
          kernels_.pack(out_, in_, codes_.data<int8_t>(), in_, part, parts, to);
      });
    };
    kept_ = kept_factor({codes_.raw(), in_, in_, out_, true}, size, fill);
    packed_ = kept_ ? kept_.get() : scratch<char>(slot, size);
    if (!kept_) fill(packed_);
  }

  const Int8Kernels& kernels_ = int8_kernels();
  const char* name_;
  AffineGrid grid_;
  Tensor codes_;
  int64_t in_, out_;
  Tensor bias_;
  Storage kept_;
  void* packed_ = nullptr;
  const float* factors_ = nullptr;
};

void round_to(const std::optional<AffineGrid>& grid, float* y, int64_t n) {
  if (grid) int8_kernels().fake_quantize(y, y, n, *grid);
}

// Calls body(row, m) for blocks of m rows that cover all of them, as many for every thread; `width`: of what
// a row needs in the cache.
template <class F> void for_each_block(int64_t rows, int64_t width, const F& body) {
  const int64_t at_once = std::clamp(most_numbers / std::max<int64_t>(1, width), least_rows, most_rows),
                threads = num_threads(), of_thread = (rows + at_once * threads - 1) / (at_once * threads),
                blocks = of_thread * threads;
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t row = rows * block / blocks, m = rows * (block + 1) / blocks - row;
      if (m > 0) body(row, m);
    }
  });
}

// y [rows, out] of few rows: every thread reads some of the weight.
void multiply_few(const Product& product, const float* x, int64_t rows, float* y) {
  const void* const codes = product.encoded(x, rows);
  const int64_t in = product.in(), out = product.out(),
                parts = std::clamp<int64_t>(out / 64, 1, 4 * num_threads());
  parallel_for(parts, std::max<int64_t>(1, parts * 32768 / (out * in)), [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) product.multiply(rows, codes, part, parts, y);
  });
}

// A new tensor [..., out] for x [..., in], and how many rows it has.
Tensor result_of(const char* name, const Tensor& x, int64_t in, int64_t out, int64_t& rows) {
  if (x.ndim() < 1 || x.size(-1) != in)
    fail(name, "got x " + x.str() + ", need [..., " + std::to_string(in) + "]");
  Shape shape = x.shape();
  shape.back() = out;
  const Tensor y = empty(shape, DType::f32, x.device());
  rows = y.numel() / std::max<int64_t>(1, out);
  return y;
}

struct Int8Linear {
  static constexpr const char* name = "int8_linear";

  static void kernel(Cpu, const float* x, int64_t rows, const Int8Layer& layer,
                     const std::optional<AffineGrid>& result, float* y) {
    const int64_t in = layer.codes.size(1), out = layer.codes.size(0);
    count_multiply_adds(rows * out * in);
    const Product product(name, layer, 4);
    if (rows <= most_few_rows && in > 0) {
      multiply_few(product, x, rows, y);
      return round_to(result, y, rows * out);
    }
    for_each_block(rows, out, [&](int64_t row, int64_t m) {
      product.multiply(m, x + row * in, y + row * out);
      round_to(result, y + row * out, m * out);
    });
  }
#ifdef PURSUIT_GPU
  static void kernel(Cuda, const float* x, int64_t rows, const Int8Layer& layer,
                     const std::optional<AffineGrid>& result, float* y) {
    const Tensor codes = layer.codes.contiguous(), scale = layer.scale.contiguous(),
                 bias = layer.bias.defined() ? layer.bias.detach().contiguous() : Tensor();
    if (codes.size(1) == 0) fail(name, "got codes " + codes.str() + ", need inputs");
    cuda::int8_product(x, rows, layer.grid, codes.data<int8_t>(), codes.size(0), codes.size(1),
                       scale.data<float>(), bias.defined() ? bias.data<float>() : nullptr, result, y);
  }
#endif
};

// int8_mlp by other operators, for a GPU.
Tensor mlp_by_layers(const Tensor& x, const Int8Layer& first, Activation f, const Int8Layer& second,
                     const AffineGrid& result) {
  const Tensor hidden = int8_linear(x, first);
  return int8_linear(f == Activation::relu ? relu(hidden) : gelu(hidden), second, result);
}

// int8_log_prob by other operators, for a GPU: so many rows at a time that their logits take 256 MB. gather
// gives NaN for labels out of range.
Tensor log_prob_by_rows(const Tensor& x, const Int8Layer& layer, const Tensor& labels) {
  const int64_t rows = x.size(0), classes = layer.codes.size(0),
                step = std::max<int64_t>(1, (int64_t(1) << 26) / classes);
  const Tensor y = zeros({rows}, DType::f32, x.device());
  for (int64_t i = 0; i < rows; i += step) {
    const int64_t end = std::min(i + step, rows);
    const Tensor label = labels.slice(0, i, end), log_p = log_softmax(int8_linear(x.slice(0, i, end), layer)),
                 of_label = gather(log_p, 1, label.reshape({-1, 1})).reshape({-1});
    copy_values(y.slice(0, i, end), where(label < 0, zeros({}, DType::f32, x.device()), of_label));
  }
  return y;
}

}  // namespace

Tensor int8_linear(const Tensor& given, const Int8Layer& layer, const std::optional<AffineGrid>& result) {
  constexpr const char* name = Int8Linear::name;
  require_layer(name, layer, given);
  OperatorCall scope(name);
  const int64_t in = layer.codes.size(1), out = layer.codes.size(0);
  int64_t rows = 0;
  const Tensor y = result_of(name, given, in, out, rows), x = given.detach().contiguous();
  dispatch(x.device(), name, [&](auto dev) {
    if (y.numel() > 0) launch<Int8Linear>(dev, x.data<float>(), rows, layer, result, y.data<float>());
  });
  scope.end(y);
  return y;
}

Tensor int8_mlp(const Tensor& given, const Int8Layer& first, Activation f, const Int8Layer& second,
                const AffineGrid& result) {
  constexpr const char* name = "int8_mlp";
  require_layer(name, first, given);
  require_layer(name, second, given);
  const int64_t in = first.codes.size(1), hidden = first.codes.size(0), out = second.codes.size(0);
  if (second.codes.size(1) != hidden)
    fail(name, "got codes " + first.codes.str() + " and then " + second.codes.str() +
                   ", need as many inputs as the first has outputs");
  if (given.device().is_cuda()) return mlp_by_layers(given, first, f, second, result);
  OperatorCall scope(name);
  int64_t rows = 0;
  const Tensor y = result_of(name, given, in, out, rows), x = given.detach().contiguous();
  const auto activate = [f](float* h, int64_t n) {
    (f == Activation::relu ? pursuit::rows<float>().relu : pursuit::rows<float>().gelu)(h, h, n);
  };
  dispatch(cpu, name, [&](auto) {
    if (y.numel() == 0) return;
    count_multiply_adds(rows * hidden * (in + out));
    const Product one(name, first, 4), two(name, second, 7);
    const float* const from = x.data<float>();
    float* const to = y.data<float>();
    if (rows <= most_few_rows && in > 0 && hidden > 0) {
      float* const h = scratch<float>(9, rows * hidden);
      multiply_few(one, from, rows, h);
      activate(h, rows * hidden);
      multiply_few(two, h, rows, to);
      return round_to(result, to, y.numel());
    }
    for_each_block(rows, hidden, [&](int64_t row, int64_t m) {
      float* const h = scratch<float>(10, m * hidden);
      one.multiply(m, from + row * in, h);
      activate(h, m * hidden);
      two.multiply(m, h, to + row * out);
      round_to(result, to + row * out, m * out);
    });
  });
  scope.end(y);
  return y;
}

Tensor int8_log_prob(const Tensor& given, const Int8Layer& layer, const Tensor& labels) {
  constexpr const char* name = "int8_log_prob";
  constexpr int64_t tile = 1024;  // classes at a time
  require_layer(name, layer, given);
  const int64_t in = layer.codes.size(1), classes = layer.codes.size(0);
  if (given.ndim() != 2 || given.size(1) != in || labels.shape() != Shape{given.size(0)} ||
      labels.dtype() != DType::i64 || labels.device() != given.device() || classes == 0)
    fail(name, "got x " + given.str() + ", labels " + labels.str() + " and codes " + layer.codes.str() +
                   ", need [rows, in], i64 [rows] and at least one class, on one device");
  if (given.device().is_cuda()) return log_prob_by_rows(given, layer, labels);
  OperatorCall scope(name);
  const int64_t rows = given.size(0);
  const Tensor x = given.detach().contiguous(), at = labels.contiguous(), y = zeros({rows}),
               stats = empty({rows, 2}, DType::f32);
  dispatch(cpu, name, [&](auto) {
    count_multiply_adds(rows * classes * in);
    const int64_t* const label = at.data<int64_t>();
    for (int64_t i = 0; i < rows; ++i)
      if (label[i] >= classes)
        fail(name, "label " + std::to_string(i) + " is " + std::to_string(label[i]) + ", need at most " +
                       std::to_string(classes - 1));
    float *const of_row = stats.data<float>(), *const to = y.data<float>();
    for (int64_t i = 0; i < rows; ++i) of_row[2 * i] = -INFINITY, of_row[2 * i + 1] = 0;
    for (int64_t first = 0; first < classes; first += tile) {
      const int64_t end = std::min(first + tile, classes), width = end - first;
      const Product product(name,
                            {layer.grid, layer.codes.slice(0, first, end), layer.scale.slice(0, first, end),
                             layer.bias.defined() ? layer.bias.slice(0, first, end) : Tensor()},
                            4);
      for_each_block(rows, width, [&](int64_t row, int64_t m) {
        float* const s = scratch<float>(10, m * width);
        product.multiply(m, x.data<float>() + row * in, s);
        for (int64_t i = 0; i < m; ++i)
          if (const int64_t j = label[row + i] - first; j >= 0 && j < width) to[row + i] = s[i * width + j];
        pursuit::rows<float>().exp_sum_rows(s, m, width, width, of_row + 2 * row);
      });
    }
    for (int64_t i = 0; i < rows; ++i)
      if (label[i] >= 0) to[i] -= of_row[2 * i] + std::log(of_row[2 * i + 1]);
  });
  scope.end(y);
  return y;
}

}  // namespace pursuit
