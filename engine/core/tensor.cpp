#include "engine/core/tensor.h"

#include <cstring>
#include <numeric>

#include "cuda/runtime.h"
#include "engine/base/random.h"
#include "engine/core/shapes_only.h"
#include "engine/operator/copy.h"
#include "engine/ops.h"
#include "engine/step/graph.h"

namespace pursuit {

namespace {

// Calls f(Type<T>{}) for any dtype.
template <class F> void with_type(DType d, const F& f) {
  switch (d) {
    case DType::f64:
      return f(Type<double>{});
    case DType::f32:
      return f(Type<float>{});
    case DType::bf16:
      return f(Type<bf16>{});
    case DType::i64:
      return f(Type<int64_t>{});
    case DType::i32:
      return f(Type<int32_t>{});
    case DType::u8:
      return f(Type<uint8_t>{});
  }
}

template <class T> T from_double(double v) {
  if constexpr (std::is_same_v<T, bf16>)
    return downcast<bf16>(float(v));
  else
    return T(v);
}

// Fills on the host in f32, then converts, so that all dtypes and devices hold the same numbers, rounded.
template <class F> Tensor fill_float(const Shape& shape, DType dtype, Device device, const F& value) {
  Tensor t = empty(shape, DType::f32);
  float* p = t.data<float>();
  const int64_t n = t.numel();
  for (int64_t i = 0; i < n; ++i) p[i] = value(i);
  return t.to(dtype).to(device);
}

}  // namespace

// Not in the header: gcc 12 does not emit it if only the {} of an aggregate calls it.
Tensor::Tensor() = default;

void Tensor::fail_undefined(const char* method) const {
  fail(method, "the tensor is undefined: it holds no values");
}

void fail_undefined(const char* function, size_t place, size_t count) {
  fail(function,
       (count == 1 ? "its argument" : "argument " + std::to_string(place) + " of " + std::to_string(count)) +
           " is an undefined tensor: it holds no values");
}

void require_defined(const char* function, std::initializer_list<const Tensor*> arguments) {
  size_t place = 0;
  for (const Tensor* t : arguments) {
    ++place;
    if (!t->defined()) fail_undefined(function, place, arguments.size());
  }
}

void Tensor::bump_version(const char* writer) const {
  count_write(storage_, writer);
  note_write(storage_);
}

bool Tensor::is_contiguous() const {
  int64_t step = 1;
  for (int i = ndim() - 1; i >= 0; --i) {
    if (shape_[i] == 0) return true;
    if (shape_[i] != 1 && strides_[i] != step) return false;
    step *= shape_[i];
  }
  return true;
}

int Tensor::wrap(int dim) const {
  const int d = dim < 0 ? dim + ndim() : dim;
  if (d < 0 || d >= ndim()) fail("tensor", "dimension " + std::to_string(dim) + " of a " + str());
  return d;
}

std::string Tensor::str() const {
  if (!defined()) return "undefined tensor";
  return std::string(name_of(dtype_)) + shape_.str() + " on " + device_.name();
}

Tensor empty(const Shape& shape, DType dtype, Device device) {
  if (device.is_cuda() && dtype == DType::f64) fail("empty", "f64 exists on the CPU only; use f32");
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.numel(), size_of(dtype), &bytes))
    fail("empty", shape.str() + " is too large");
  return Tensor(allocate(device, bytes), shape, contiguous_strides(shape), 0, dtype, device);
}

Tensor zeros(const Shape& shape, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  if (shapes_only()) return t;
  if (device.is_cuda())
    cuda::fill_zero(t.raw(), device.index, size_t(t.bytes()));
  else
    std::memset(t.raw(), 0, size_t(t.bytes()));
  return t;
}

Tensor empty_like(const Tensor& x) {
  require_defined("empty_like", {&x});
  return empty(x.shape(), x.dtype(), x.device());
}
Tensor zeros_like(const Tensor& x) {
  require_defined("zeros_like", {&x});
  return zeros(x.shape(), x.dtype(), x.device());
}

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  if (shapes_only()) return t;
  with_type(dtype, [&]<class T>(Type<T>) {
    const T v = from_double<T>(value);
    if (!device.is_cuda()) {
      std::fill_n(t.data<T>(), t.numel(), v);
    } else if (t.numel() == 1) {
      write_small(t, &v);
    } else {
      const Tensor one = empty({}, dtype, device);
      write_small(one, &v);
      copy_strided(t, one.expand(shape));
    }
  });
  return t;
}

Tensor arange(int64_t n, DType dtype, Device device) {
  Tensor t = empty({n}, dtype);
  with_type(dtype, [&]<class T>(Type<T>) {
    for (int64_t i = 0; i < n; ++i) t.data<T>()[i] = from_double<T>(double(i));
  });
  return t.to(device);
}

Tensor uniform(const Shape& shape, double lo, double hi, uint64_t seed, uint64_t stream, DType dtype,
               Device device) {
  return fill_float(shape, dtype, device, [&](int64_t i) {
    return float(lo + (hi - lo) * double(philox_uniform(seed, stream, uint64_t(i))));
  });
}

Tensor normal(const Shape& shape, double mean, double std, uint64_t seed, uint64_t stream, DType dtype,
              Device device) {
  return fill_float(shape, dtype, device, [&](int64_t i) {
    return float(mean + std * double(philox_normal(seed, stream, uint64_t(i))));
  });
}

Tensor Tensor::reshape(const Shape& shape) const { return pursuit::reshape(*this, shape); }
Tensor Tensor::permute(const std::vector<int>& dims) const { return pursuit::permute(*this, dims); }
Tensor Tensor::slice(int dim, int64_t begin, int64_t end) const {
  return pursuit::slice(*this, dim, begin, end);
}
Tensor Tensor::expand(const Shape& shape) const { return pursuit::expand(*this, shape); }
Tensor Tensor::contiguous() const {
  if (!defined()) fail_undefined("contiguous");
  return is_contiguous() ? *this : pursuit::contiguous(*this);
}
Tensor Tensor::to(DType dtype) const {
  if (!defined()) fail_undefined("to");
  if (dtype == dtype_) return *this;
  if (!node_ || !node_->copy.defined() || node_->copy.dtype() != dtype) return cast(*this, dtype);
  Tensor copy = node_->copy;
  copy.node_ = node_;
  return copy;
}
Tensor Tensor::to(Device device) const {
  if (!defined()) fail_undefined("to");
  return device == device_ ? *this : to_device(*this, device);
}

Tensor Tensor::sum(const std::vector<int>& dims, bool keep) const { return pursuit::sum(*this, dims, keep); }
Tensor Tensor::mean(const std::vector<int>& dims, bool keep) const {
  return pursuit::mean(*this, dims, keep);
}
Tensor Tensor::max() const { return max_along(reshape({numel()}), 0).values; }
Tensor Tensor::min() const { return min_along(reshape({numel()}), 0).values; }

Tensor Tensor::transpose(int d0, int d1) const {
  if (!defined()) fail_undefined("transpose");
  std::vector<int> dims(static_cast<size_t>(ndim()));
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[size_t(wrap(d0))], dims[size_t(wrap(d1))]);
  return permute(dims);
}

Tensor Tensor::select(int dim, int64_t index) const {
  if (!defined()) fail_undefined("select");
  const int d = wrap(dim);
  const int64_t at = index < 0 ? index + size(d) : index;
  if (at < 0 || at >= size(d))
    fail("select",
         "index " + std::to_string(index) + " of dimension " + std::to_string(d) + " of a " + str());
  Shape shape = shape_;
  shape.erase(d);
  return slice(d, at, at + 1).reshape(shape);
}

double Tensor::item() const {
  if (!defined()) fail_undefined("item");
  if (numel() != 1) fail("item", "a " + str() + " is not one value");
  return to_vector()[0];
}

std::vector<double> Tensor::to_vector() const {
  if (!defined()) fail_undefined("to_vector");
  if (shapes_only()) fail("to_vector", "there are shapes only, no values");
  const Tensor t = detach().to(cpu).contiguous();
  std::vector<double> values(static_cast<size_t>(numel()));
  with_type(dtype_, [&]<class T>(Type<T>) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = double(upcast(t.data<T>()[i]));
  });
  return values;
}

void copy_values(const Tensor& dst, const Tensor& src) {
  require_defined("copy_values", {&dst, &src});
  if (dst.shape() != src.shape()) fail("copy", "got " + src.str() + ", need the shape of " + dst.str());
  if (dst.device() != src.device()) return copy_values(dst, src.detach().to(dst.device()));
  copy_strided(dst, src);
  dst.bump_version("copy_values");
}

}  // namespace pursuit
