#include "cuda/gemm.h"
#include "engine/cpu/gemm.h"
#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

// A matrix that BLAS can read: its rows or columns are contiguous.
struct Matrix {
  Tensor t;
  bool transposed;
  int64_t ld;
};

Matrix as_matrix(const Tensor& x) {
  const int r = x.ndim() - 2, c = x.ndim() - 1;
  const auto leading = [&](int dim, int64_t least) {
    return x.size(dim) == 1 ? std::max<int64_t>(least, 1) : x.stride(dim);
  };
  if ((x.stride(c) == 1 || x.size(c) == 1) && leading(r, x.size(c)) >= std::max<int64_t>(1, x.size(c)))
    return {x, false, leading(r, x.size(c))};
  if ((x.stride(r) == 1 || x.size(r) == 1) && leading(c, x.size(r)) >= std::max<int64_t>(1, x.size(r)))
    return {x, true, leading(c, x.size(r))};
  return {contiguous(x), false, x.size(c)};
}

Shape batch_of(const Tensor& x) {
  Shape s = x.shape();
  s.erase(s.size() - 1);
  s.erase(s.size() - 1);
  return s;
}

}  // namespace

struct Matmul {
  static constexpr const char* name = "matmul";
  Tensor kept_a = {}, kept_b = {};  // each is saved for the other's gradient
  Shape shape_of_a = {}, shape_of_b = {};
  Needs needs = {};

  Tensor forward(const Tensor& a, const Tensor& b) {
    shape_of_a = a.shape();
    shape_of_b = b.shape();
    if (needs[0]) kept_b = b;
    if (needs[1]) kept_a = a;
    Shape shape = broadcast_shapes(batch_of(a), batch_of(b), name);
    const Shape batch = shape;
    const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
    shape.push_back(m);
    shape.push_back(n);
    Tensor y = empty(shape, a.dtype(), a.device());
    const Matrix ma = as_matrix(a), mb = as_matrix(b);
    const auto stacked = [&](const Tensor& x) {
      Shape strides = x.strides();
      strides.erase(strides.size() - 1);
      strides.erase(strides.size() - 1);
      return x.view(batch_of(x), strides, x.offset());
    };
    const Tensor sa = stacked(ma.t), sb = stacked(mb.t), sy = stacked(y);
    dispatch(a, name, [&]<class Dev, class T>(Dev dev, Type<T> type) {
      launch<Matmul>(dev, type, ma, mb, y, layout_of(batch, sa, sb, sy), m, n, k);
    });
    return y;
  }

  // `l` iterates over the matrices of a, b and y.
  template <class T> static void kernel(Cpu, Type<T>, const Matrix& a, const Matrix& b, const Tensor& y,
                                        const Layout<3>& l, int64_t m, int64_t n, int64_t k) {
    const T *pa = a.t.data<T>(), *pb = b.t.data<T>();
    T* py = y.data<T>();
    const int64_t cost = 64 + m * n * k / 8;  // of the call, and of multiply-adds in vectors
    const auto product = [&](int64_t at_a, int64_t at_b, int64_t at_y) {
      gemm(a.transposed, b.transposed, m, n, k, compute_t<T>(1), pa + at_a, a.ld, pb + at_b, b.ld,
           compute_t<T>(0), py + at_y, n);
    };
    for_each(Cpu{}, l, product, cost);
  }
#ifdef PURSUIT_GPU
  // One batch per row of `l`.
  template <class T> static void kernel(Cuda, Type<T>, const Matrix& a, const Matrix& b, const Tensor& y,
                                        const Layout<3>& l, int64_t m, int64_t n, int64_t k) {
    const int last = l.ndim - 1;
    const int64_t inner = l.size[last], outer = inner ? l.numel / inner : 0;
    for (int64_t row = 0; row < outer; ++row) {
      int64_t at[3] = {}, rest = row;
      for (int d = last - 1; d >= 0; --d) {
        for (int t = 0; t < 3; ++t) at[t] += rest % l.size[d] * l.stride[t][d];
        rest /= l.size[d];
      }
      cuda::gemm({.factors = dtype_of<T>(),
                  .result = dtype_of<T>(),
                  .m = m,
                  .n = n,
                  .k = k,
                  .a = a.t.data<T>() + at[0],
                  .lda = a.ld,
                  .ta = a.transposed,
                  .b = b.t.data<T>() + at[1],
                  .ldb = b.ld,
                  .tb = b.transposed,
                  .d = y.data<T>() + at[2],
                  .ldd = n,
                  .batch = inner,
                  .stride_a = l.stride[0][last],
                  .stride_b = l.stride[1][last],
                  .stride_d = l.stride[2][last]});
    }
  }
#endif

  Grads backward(const Tensor& gy, Needs) {
    return {needs[0] ? sum_to(matmul(gy, kept_b.transpose(-1, -2)), shape_of_a) : Tensor(),
            needs[1] ? sum_to(matmul(kept_a.transpose(-1, -2), gy), shape_of_b) : Tensor()};
  }
  static std::vector<Sample<Matmul>> samples() {
    return {{{}, {{{3, 5}}, {{5, 4}}}},
            {{}, {{{2, 1, 7, 33}}, {{3, 33, 2}}}},
            {{}, {{{65, 129}}, {{129, 17}}}},
            {{}, {{{2, 3, 0}}, {{2, 0, 4}}}},
            {{}, {{{1, 1}}, {{1, 6}}}}};
  }
};
PURSUIT_OPERATOR(Matmul)

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.ndim() < 2 || b.ndim() < 2 || a.size(-1) != b.size(-2) || a.dtype() != b.dtype() ||
      a.device() != b.device())
    fail("matmul",
         "got " + a.str() + " and " + b.str() + ", need [..., M, K] and [..., K, N] of one dtype and device");
  return apply(Matmul{}, a, b);
}

}  // namespace pursuit
