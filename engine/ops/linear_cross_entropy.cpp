#include "cuda/linear_cross_entropy.cuh"

#include <cstring>

#include "cuda/dense.cuh"
#include "engine/cpu/dense.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

// Rows of a contiguous x [rows, ...].
int64_t row_bytes(const Tensor& x) { return x.bytes() / x.size(0); }
char* row_of(const Tensor& x, int64_t i) { return static_cast<char*>(x.raw()) + i * row_bytes(x); }
Shape with_rows(const Tensor& x, int64_t rows) {
  Shape shape = x.shape();
  shape[0] = rows;
  return shape;
}
// Selects rows `numbers` of x [rows, ...]; below, the inverse: x's rows placed among `rows` zeros.
Tensor pick_rows(const Tensor& x, const std::vector<int64_t>& numbers) {
  const Tensor y = empty(with_rows(x, int64_t(numbers.size())), x.dtype());
  for (size_t i = 0; i < numbers.size(); ++i)
    std::memcpy(row_of(y, int64_t(i)), row_of(x, numbers[i]), size_t(row_bytes(x)));
  return y;
}
Tensor spread_rows(const Tensor& x, const std::vector<int64_t>& numbers, int64_t rows) {
  const Tensor y = zeros(with_rows(x, rows), x.dtype());
  for (size_t i = 0; i < numbers.size(); ++i)
    std::memcpy(row_of(y, numbers[i]), row_of(x, int64_t(i)), size_t(row_bytes(x)));
  return y;
}

}  // namespace

// Processes tiles of classes, for all rows at a time. Forward merges each tile's largest logit and sum of
// exponentials with those of earlier tiles. Backward recomputes the logits, a fourth product in addition to
// the three that are enough with all logits in memory; as the sums are known, a tile's part of weight's
// gradient is complete at once. On the CPU only the rows that count take part; on a GPU all do, so that
// nothing waits for the labels.
struct LinearCrossEntropy {
  static constexpr const char* name = "linear_cross_entropy";
  int64_t ignore_index = -1;
  Tensor count = {};
  Tensor x = {}, weight = {}, bias = {}, classes = {};  // of the rows that take part
  std::vector<int64_t> kept = {};                       // on the CPU: their indices
  int64_t rows_given = 0;
  Tensor stats = {};  // [rows, 2], in the compute dtype: the largest logit m and 1 / sum exp(logit - m)
  Tensor scale = {};  // []: 1 / count

  // A tile's logits, or their gradients, take a few MiB on the CPU and a hundred on a GPU.
  int64_t tile_width() const {
    const bool gpu = x.device().is_cuda();
    const int64_t width = (gpu ? 1 << 25 : 1 << 19) / std::max<int64_t>(1, x.size(0)) / 64 * 64;
    return std::clamp<int64_t>(width, gpu ? 1024 : 128, 4096);
  }
  // With shapes only: counts the memory that kernels use for tiles.
  void count_tiles(int tiles) const {
    if (shapes_only() && tiles > 0)
      empty({tiles, x.size(0), tile_width()}, x.device().is_cuda() ? DType::f32 : x.dtype(), x.device());
  }
  template <class F> void for_each_tile(const F& body) const {
    const int64_t all = weight.size(0), width = tile_width();
    for (int64_t first = 0; first < all; first += width) body(first, std::min(width, all - first));
  }

  // The logits of a tile for m rows from r on, written to s [m, width].
  template <class T> void tile_logits(const RightFactor<T>& right, int64_t r, int64_t m, int64_t first,
                                      int64_t width, compute_t<T>* s) const {
    using R = compute_t<T>;
    const int64_t dim = x.size(1);
    right.multiply(m, x.data<T>() + r * dim, dim, s, width);
    if (!bias.defined()) return;
    const Rows<const R> b = read_rows(bias.data<T>() + first, width, 1, width, scratch<R>(2, width));
    pursuit::rows<R>().bias_rows(s, b.p, nullptr, m, width, width, 0);
  }

  template <class T> static void kernel(Cpu, Type<T>, const LinearCrossEntropy& op, const Tensor& losses) {
    using R = compute_t<T>;
    const int64_t n = op.x.size(0), dim = op.x.size(1);
    const T* w = op.weight.data<T>();
    const int64_t* label = op.classes.data<int64_t>();
    R *stats = op.stats.data<R>(), *loss = losses.data<R>();
    for (int64_t i = 0; i < n; ++i) {
      stats[2 * i] = -INFINITY;
      stats[2 * i + 1] = 0;
    }
    op.for_each_tile([&](int64_t first, int64_t width) {
      const RightFactor<T> right(layout_of_weight(n, true), true, w + first * dim, dim, dim, width, 4);
      for_each_chunk<T>(n, [&](int64_t r, int64_t m) {
        R* s = scratch<R>(1, m * width);
        op.tile_logits(right, r, m, first, width, s);
        pursuit::rows<R>().exp_sum_rows(s, m, width, width, stats + 2 * r);
        for (int64_t i = 0; i < m; ++i)
          if (const int64_t at = label[r + i] - first; at >= 0 && at < width)
            loss[r + i] = -s[i * width + at];
      });
    });
    for (int64_t i = 0; i < n; ++i) {
      loss[i] += stats[2 * i] + std::log(stats[2 * i + 1]);
      stats[2 * i + 1] = 1 / stats[2 * i + 1];
    }
  }

  // Undefined where not needed.
  struct Wanted {
    Tensor x, weight, bias;
  };

  // gx is in the compute dtype and accumulated; initially 0.
  template <class T> static void gradient(Cpu, Type<T>, const LinearCrossEntropy& op, const Tensor& factor,
                                          const Wanted& wanted) {
    using R = compute_t<T>;
    const int64_t n = op.x.size(0), dim = op.x.size(1);
    const T *x = op.x.data<T>(), *w = op.weight.data<T>();
    const int64_t* label = op.classes.data<int64_t>();
    const R f = *factor.data<R>();
    std::vector<R> stats(size_t(2 * n));
    for (int64_t i = 0; i < n; ++i) {
      stats[size_t(2 * i)] = op.stats.data<R>()[2 * i];
      stats[size_t(2 * i) + 1] = f * op.stats.data<R>()[2 * i + 1];
    }
    R* gx = wanted.x.defined() ? wanted.x.data<R>() : nullptr;
    const Tensor tile = empty({n, op.tile_width()}, op.x.dtype());
    T* g = tile.data<T>();
    op.for_each_tile([&](int64_t first, int64_t width) {
      const RightFactor<T> right(layout_of_weight(n, true), true, w + first * dim, dim, dim, width, 4);
      for_each_chunk<T>(n, [&](int64_t r, int64_t m) {
        const Rows<R> to = target_rows(g + r * width, width, width, scratch<R>(1, m * width));
        op.tile_logits(right, r, m, first, width, to.p);
        pursuit::rows<R>().softmax_again_rows(to.p, m, width, width, &stats[size_t(2 * r)], -1);
        for (int64_t i = 0; i < m; ++i)
          if (const int64_t at = label[r + i] - first; at >= 0 && at < width) to.at(i)[at] -= f;
        store_rows(g + r * width, width, m, width, to);
        if (gx)
          gemm(false, false, m, dim, width, R(1), g + r * width, width, w + first * dim, dim, R(1),
               gx + r * dim, dim);
      });
      if (wanted.weight.defined())
        dense_weight_gradient(g, x, wanted.weight.data<T>() + first * dim, n, dim, width);
      if (wanted.bias.defined()) dense_bias_gradient(g, wanted.bias.data<T>() + first, n, width);
    });
  }

#ifdef PURSUIT_GPU
  // A tile's logits [rows, width].
  template <class T> void tile_logits(int64_t first, int64_t width, float* s) const {
    const int64_t dim = x.size(1);
    cuda::dense<T, float>(x.data<T>(), weight.data<T>() + first * dim,
                          bias.defined() ? bias.data<T>() + first : nullptr, nullptr, s, x.size(0), dim,
                          width);
  }

  template <class T> static void kernel(Cuda, Type<T>, const LinearCrossEntropy& op, const Tensor& losses) {
    const int64_t n = op.x.size(0), all = op.weight.size(0);
    if (n == 0) return;
    const Tensor tile = empty({n, std::min(all, op.tile_width())}, DType::f32, op.x.device());
    float* s = tile.data<float>();
    op.for_each_tile([&](int64_t first, int64_t width) {
      op.tile_logits<T>(first, width, s);
      cuda::with_team<float>(width, {s}, [&]<class Team>(Type<Team>) {
        cuda::launch<cuda::class_tile_kernel<Team>>(Team::grid(n), static_cast<const float*>(s),
                                                    op.classes.data<int64_t>(), op.ignore_index, n, width,
                                                    first, all, op.stats.data<float>(), losses.data<float>());
      });
    });
  }
  template <class T> static void gradient(Cuda, Type<T>, const LinearCrossEntropy& op, const Tensor& factor,
                                          const Wanted& wanted) {
    const int64_t n = op.x.size(0), dim = op.x.size(1), all = op.weight.size(0),
                  most = std::min(all, op.tile_width());
    const T *x = op.x.data<T>(), *w = op.weight.data<T>();
    const Tensor logits = empty({n, most}, DType::f32, op.x.device()),
                 tile = empty({n, most}, op.x.dtype(), op.x.device());
    float* s = logits.data<float>();
    T* g = tile.data<T>();
    op.for_each_tile([&](int64_t first, int64_t width) {
      op.tile_logits<T>(first, width, s);
      if (n)
        cuda::with_team<T>(width, {s, g}, [&]<class Team>(Type<Team>) {
          cuda::launch<cuda::class_tile_gradient_kernel<Team, T>>(
              Team::grid(n), static_cast<const float*>(s), op.classes.data<int64_t>(), op.ignore_index, n,
              width, first, all, op.stats.data<float>(), factor.data<float>(), g);
        });
      if (wanted.x.defined()) {
        float* gx = wanted.x.data<float>();
        cuda::gemm({.factors = dtype_of<T>(),
                    .result = DType::f32,
                    .m = n,
                    .n = dim,
                    .k = width,
                    .a = g,
                    .lda = width,
                    .b = w + first * dim,
                    .ldb = dim,
                    .d = gx,
                    .ldd = dim,
                    .c = gx,
                    .ldc = dim});
      }
      cuda::dense_parameter_gradients<T>(
          g, x, wanted.weight.defined() ? wanted.weight.data<T>() + first * dim : nullptr,
          wanted.bias.defined() ? wanted.bias.data<T>() + first : nullptr, n, dim, width);
    });
  }
#endif

  // -log p(label) of the rows that take part; saves what backward needs.
  Tensor row_losses(const Tensor& in, const Tensor& w, const Tensor& b, const Tensor& labels) {
    x = in.contiguous();
    weight = w.contiguous();
    bias = b.defined() ? b.contiguous() : Tensor();
    classes = labels.to(DType::i64).contiguous();
    rows_given = x.size(0);
    if (!x.device().is_cuda() && !shapes_only()) keep_counted();
    const DType wide = compute_type(x.dtype());
    stats = empty({x.size(0), 2}, wide, x.device());
    const Tensor losses = zeros({x.size(0)}, wide, x.device());
    count_tiles(x.device().is_cuda() ? 1 : 0);
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T> type) {
      launch<LinearCrossEntropy>(dev, type, *this, losses);
    });
    return losses;
  }

  Tensor forward(const Tensor& in, const Tensor& w, const Tensor& b, const Tensor& labels) {
    const Tensor losses = row_losses(in, w, b, labels);
    const Tensor counted = count.defined() ? count : label_count(labels, ignore_index);
    scale = full({}, 1, losses.dtype(), losses.device()) /
            clamp(counted.to(losses.dtype()).to(losses.device()), 1, INFINITY);
    return sum(losses) * scale;
  }
  Grads backward(const Tensor& gy, Needs needs) {
    const Device device = x.device();
    Wanted wanted{needs[0] ? zeros(x.shape(), compute_type(x.dtype()), device) : Tensor(),
                  needs[1] ? empty_like(weight) : Tensor(),
                  needs[2] && bias.defined() ? empty_like(bias) : Tensor()};
    const Tensor factor = gy * scale;
    count_tiles(x.device().is_cuda() ? 2 : 1);
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T> type) {
      launch_gradient<LinearCrossEntropy>(dev, type, *this, factor, wanted);
    });
    Tensor gx = needs[0] ? wanted.x.to(x.dtype()) : Tensor();
    if (gx.defined() && gx.size(0) < rows_given) gx = spread_rows(gx, kept, rows_given);
    return {gx, wanted.weight, wanted.bias, Tensor()};
  }

  Tensor reference(const Tensor& in, const Tensor& w, const Tensor& b, const Tensor& labels) const {
    const Tensor mean = cross_entropy(linear(in, w, b), labels, 0, ignore_index);
    if (!count.defined()) return mean;
    const Tensor counted = clamp(label_count(labels, ignore_index).to(mean.dtype()), 1, INFINITY);
    return mean * counted / count.to(mean.dtype()).to(mean.device());
  }
  static std::vector<Sample<LinearCrossEntropy>> samples() {
    const auto input = [](int64_t n, int64_t dim) { return Input{{n, dim}, -2, 2}; };
    return {{{}, {input(4, 5), input(7, 5), left_out(), labels({4}, 7)}},
            {{}, {input(33, 12), input(19, 12), {{19}}, labels({33}, 19)}},
            {{3}, {input(9, 6), input(5, 6), {{5}}, labels({9}, 5)}},  // some rows ignored
            {{1, full({}, 20)}, {input(13, 6), input(6, 6), left_out(), labels({13}, 6)}},
            // More classes than fit in a tile. The gradient of x is a sum over all of them, and where they
            // are broadcast the rounding of one probability affects all.
            {{}, {input(6, 3), input(4100, 3), {{4100}}, labels({6}, 4100)}, 4},
            {{0}, {input(3, 4), input(1, 4), left_out(), labels({3}, 1)}},  // all ignored
            {{}, {input(0, 5), input(7, 5), {{7}}, labels({0}, 7)}}};
  }

 private:
  void keep_counted() {
    const int64_t* label = classes.data<int64_t>();
    for (int64_t i = 0; i < rows_given; ++i) {
      if (label[i] == ignore_index) continue;
      if (label[i] < 0 || label[i] >= weight.size(0))
        fail(name, "the label of row " + std::to_string(i) + " is " + std::to_string(label[i]) +
                       ", need 0 to " + std::to_string(weight.size(0) - 1) + " or ignore_index " +
                       std::to_string(ignore_index));
      kept.push_back(i);
    }
    if (int64_t(kept.size()) == rows_given) return;
    x = pick_rows(x, kept);
    classes = pick_rows(classes, kept);
  }
};
PURSUIT_OPERATOR(LinearCrossEntropy)

namespace {

void check(const char* where, const Tensor& x, const Tensor& weight, const Tensor& bias,
           const Tensor& labels) {
  if (x.ndim() != 2 || weight.ndim() != 2 || x.size(1) != weight.size(1) || x.dtype() != weight.dtype() ||
      x.device() != weight.device())
    fail(where, "got x " + x.str() + " and weight " + weight.str() +
                    ", need [rows, dim] and [classes, dim] of one dtype and device");
  if (bias.defined() &&
      (bias.shape() != Shape{weight.size(0)} || bias.dtype() != x.dtype() || bias.device() != x.device()))
    fail(where, "bias is " + bias.str() + ", need " + name_of(x.dtype()) + Shape{weight.size(0)}.str() +
                    " on " + x.device().name());
  if (labels.shape() != Shape{x.size(0)} || is_floating(labels.dtype()) || labels.device() != x.device())
    fail(where, "got labels " + labels.str() + " for " + x.str() + ", need one integer a row on its device");
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& labels,
                            int64_t ignore_index, const Tensor& count) {
  check("linear_cross_entropy", x, weight, bias, labels);
  if (count.defined() && (count.numel() != 1 || count.device() != x.device()))
    fail("linear_cross_entropy", "count is " + count.str() + ", need one number beside " + x.str());
  return apply(LinearCrossEntropy{ignore_index, count.detach()}, x, weight, bias, labels);
}

Tensor linear_log_prob(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& labels,
                       int64_t ignore_index) {
  check("linear_log_prob", x, weight, bias, labels);
  NoGrad off;
  LinearCrossEntropy op{ignore_index};
  const Tensor losses = op.row_losses(x, weight, bias, labels);
  return -(losses.size(0) < x.size(0) ? spread_rows(losses, op.kept, x.size(0)) : losses);
}

}  // namespace pursuit
