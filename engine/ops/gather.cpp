#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

// A kernel cannot throw: for an index out of range the result is NaN.
template <class T> struct Pick {
  const int64_t* index;
  const T* x;
  T* y;
  int64_t size, stride;  // of x, along the dimension
  HD void operator()(int64_t i, int64_t j, int64_t k) const {
    const int64_t at = index[i];
    y[k] = at >= 0 && at < size ? x[j + at * stride] : downcast<T>(compute_t<T>(NAN));
  }
};

// One thread sums a line along the dimension, in order.
template <class T> struct AddPicked {
  const int64_t* index;
  const T* gy;
  compute_t<T>* gx;
  int64_t count, index_stride, gy_stride, size, stride;
  HD void operator()(int64_t i, int64_t j, int64_t k) const {
    for (int64_t n = 0; n < count; ++n) {
      const int64_t at = index[i + n * index_stride];
      if (at >= 0 && at < size) gx[k + at * stride] += upcast(gy[j + n * gy_stride]);
    }
  }
};

// x as lines starting at index 0 along `dim`, with the given shape.
Tensor first_of_lines(const Tensor& x, int dim, Shape shape) {
  shape[dim] = 1;
  return x.view(shape, x.strides(), x.offset());
}

}  // namespace

struct Gather {
  static constexpr const char* name = "gather";
  int dim = 0;
  Tensor index = {};  // i64
  Shape before = {};

  Tensor forward(const Tensor& x, const Tensor& at) {
    index = at.to(DType::i64);
    before = x.shape();
    const Tensor y = empty(index.shape(), x.dtype(), x.device());
    if (x.device() == cpu && !shapes_only()) check_range(x.size(dim));
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      for_each(dev, layout_of(y.shape(), index, first_of_lines(x, dim, y.shape()), y),
               Pick<T>{index.data<int64_t>(), x.data<T>(), y.data<T>(), x.size(dim), x.stride(dim)});
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor gx = zeros(before, compute_type(gy.dtype()), gy.device());
    Shape lines = gy.shape();
    lines[dim] = 1;
    dispatch(gy, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      for_each(dev,
               layout_of(lines, first_of_lines(index, dim, lines), first_of_lines(gy, dim, lines),
                         first_of_lines(gx, dim, lines)),
               AddPicked<T>{index.data<int64_t>(), gy.data<T>(), gx.data<compute_t<T>>(), gy.size(dim),
                            index.stride(dim), gy.stride(dim), gx.size(dim), gx.stride(dim)});
    });
    return {gx.to(gy.dtype()), Tensor()};
  }
  // As one-hot rows.
  Tensor reference(const Tensor& x, const Tensor& at) const {
    const int64_t size = x.size(dim);
    Shape shape = at.shape();
    shape.insert(dim + 1, 1);
    Shape all = at.shape();
    all.insert(dim + 1, size);
    const Tensor numbers = arange(size, DType::i64, x.device());
    Shape along = Shape(std::vector<int64_t>(size_t(all.size()), 1));
    along[dim + 1] = size;
    const Tensor one_hot = (at.to(DType::i64).reshape(shape) == numbers.reshape(along)).to(x.dtype());
    Tensor cut = x;
    for (int d = 0; d < x.ndim(); ++d)
      if (d != dim) cut = cut.slice(d, 0, at.size(d));
    Shape wide = cut.shape();
    wide.insert(dim, 1);
    return sum(one_hot * cut.reshape(wide), {dim + 1});
  }
  static std::vector<Sample<Gather>> samples() {
    return {{{0}, {{{5}}, labels({9}, 5)}},
            {{1}, {{{3, 7}}, labels({3, 4}, 7)}},
            {{1}, {{{2, 33, 3}}, labels({2, 50, 2}, 33)}},
            {{2}, {{{2, 1, 129}}, labels({2, 1, 1}, 129)}},
            {{0}, {{{4, 3}}, labels({0, 3}, 4)}}};
  }

 private:
  void check_range(int64_t size) const {
    const Tensor dense = index.contiguous();
    const int64_t* at = dense.data<int64_t>();
    for (int64_t i = 0; i < dense.numel(); ++i)
      if (at[i] < 0 || at[i] >= size)
        fail(name, "index " + std::to_string(i) + " is " + std::to_string(at[i]) + ", need 0 to " +
                       std::to_string(size - 1));
  }
};
PURSUIT_OPERATOR(Gather)

Tensor gather(const Tensor& x, int dim, const Tensor& index) {
  require_defined("gather", {&x, &index});
  bool fits =
      x.ndim() > 0 && index.ndim() == x.ndim() && !is_floating(index.dtype()) && index.device() == x.device();
  for (int d = 0; fits && d < x.ndim(); ++d) fits = d == x.wrap(dim) || index.size(d) <= x.size(d);
  if (!fits)
    fail("gather", "got " + x.str() + " and index " + index.str() +
                       ", need integers on its device, of no larger size in every other dimension");
  return apply(Gather{x.wrap(dim)}, x, index);
}

namespace {

Extremes at_index(const Tensor& x, int dim, bool keep, const Tensor& index) {
  const Tensor value = gather(x, dim, index);
  if (keep) return {value, index};
  return {value.select(dim, 0), index.select(dim, 0)};
}

// argmax(x) along dim, keeping it with size 1.
Tensor index_of_max(const Tensor& x, int dim) {
  const Tensor index = argmax(x.transpose(dim, -1));
  Shape last = index.shape();
  last.push_back(1);
  return index.reshape(last).transpose(dim, -1);
}

}  // namespace

Extremes max_along(const Tensor& x, int dim, bool keep) {
  require_defined("max_along", {&x});
  const int d = x.wrap(dim);
  return at_index(x, d, keep, index_of_max(x, d));
}
Extremes min_along(const Tensor& x, int dim, bool keep) {
  require_defined("min_along", {&x});
  const int d = x.wrap(dim);
  return at_index(x, d, keep, index_of_max(-x.detach(), d));
}

}  // namespace pursuit
