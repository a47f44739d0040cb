#include "engine/core/tensor.h"

#include <cstring>

#include "cuda/runtime.h"
#include "engine/base/random.h"
#include "engine/core/shapes_only.h"

namespace pursuit {

namespace {

// Fills on the host in f32, then converts, so that all dtypes and devices hold the same numbers, rounded.
template <class F> Tensor fill_float(const Shape& shape, DType dtype, Device device, const F& value) {
  Tensor t = empty(shape, DType::f32);
  float* p = t.data<float>();
  const int64_t n = shapes_only() ? 0 : t.numel();
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

void Tensor::bump_version(const char* writer) const { count_write(storage_, writer); }

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

Tensor arange(int64_t n, DType dtype, Device device) {
  Tensor t = empty({n}, dtype);
  if (shapes_only()) return t.to(device);
  with_type(dtype, [&]<class T>(Type<T>) {
    for (int64_t i = 0; i < n; ++i) t.data<T>()[i] = convert<T>(double(i));
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

void fill_from(const Tensor& t, const void* values) {
  if (t.numel() > 0 && !shapes_only()) std::memcpy(t.raw(), values, size_t(t.bytes()));
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
    const T* const from = t.data<T>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = double(upcast(from[i]));
  });
  return values;
}

}  // namespace pursuit
