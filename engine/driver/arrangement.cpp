#include "engine/driver/arrangement.h"

#include <algorithm>
#include <cmath>

namespace pursuit::driver {

namespace {

// The dimension that gets stride 0, or -1.
int repeated_dim(const Shape& shape) {
  for (int d = 0; d < shape.size(); ++d)
    if (shape[d] > 1) return d;
  return -1;
}

}  // namespace

const char* name_of(Arrangement a) {
  switch (a) {
    case Arrangement::contiguous:
      return "contiguous";
    case Arrangement::transposed:
      return "transposed";
    case Arrangement::sliced:
      return "sliced";
    case Arrangement::broadcast:
      return "broadcast";
  }
  return "?";
}

Tensor draw(const Input& input, Arrangement a, DType dtype, uint64_t stream) {
  Shape shape = input.shape;
  const int d = a == Arrangement::broadcast ? repeated_dim(shape) : -1;
  if (d >= 0) shape[d] = 1;
  Tensor t;
  if (input.integer) {
    std::vector<int32_t> values;
    for (double v : uniform(shape, input.lo, input.hi, 1, stream, DType::f64).to_vector())
      values.push_back(int32_t(std::min(std::floor(v), input.hi - 1)));
    t = from_vector(values, shape);
  } else {
    t = uniform(shape, input.lo, input.hi, 1, stream, input.wide ? compute_type(dtype) : dtype);
  }
  return t.expand(input.shape).contiguous();
}

Arranged::Arranged(const Tensor& values, Arrangement a, Device device) {
  const Shape& shape = values.shape();
  const int d = repeated_dim(shape);
  if (a == Arrangement::broadcast && d >= 0) {
    base_ = values.slice(d, 0, 1).contiguous().to(device);
    view_ = base_.expand(shape);
  } else if (a == Arrangement::transposed) {
    std::vector<int> reversed;
    for (int i = shape.size() - 1; i >= 0; --i) reversed.push_back(i);
    base_ = values.permute(reversed).contiguous().to(device);
    view_ = base_.permute(reversed);
  } else if (a == Arrangement::sliced) {
    Shape larger = shape;
    for (int i = 0; i < shape.size(); ++i) larger[i] += 3;
    // A scalar has no dimension to extend: it is placed after a guard element in a separate row.
    if (shape.empty()) larger = {3};
    base_ = full(larger, is_floating(values.dtype()) ? NAN : -12345, values.dtype());
    view_ = base_.slice(0, 1, 1 + (shape.empty() ? 1 : shape[0]));
    for (int i = 1; i < shape.size(); ++i) view_ = view_.slice(i, 1, 1 + shape[i]);
    if (shape.empty()) view_ = view_.reshape({});
    copy_values(view_, values);
    const Tensor there = base_.to(device);
    view_ = Tensor(there.storage(), shape, view_.strides(), view_.offset(), values.dtype(), device);
    base_ = there;
  } else {
    base_ = view_ = values.to(device);
  }
  before_ = bytes();
}

std::vector<char> Arranged::bytes() const {
  const Tensor here = base_.to(cpu);
  const char* p = static_cast<const char*>(here.raw());
  return {p, p + here.bytes()};
}

bool Arranged::touched() const { return bytes() != before_; }

}  // namespace pursuit::driver
