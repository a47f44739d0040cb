#include <algorithm>
#include <numeric>

#include "engine/core/shapes_only.h"
#include "engine/operator/copy.h"
#include "engine/ops.h"

// The functions of tensor.h that are implemented with operators or copies.
namespace pursuit {

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  if (shapes_only()) return t;
  with_type(dtype, [&]<class T>(Type<T>) {
    const T v = convert<T>(value);
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

void copy_values(const Tensor& dst, const Tensor& src) {
  require_defined("copy_values", {&dst, &src});
  if (dst.shape() != src.shape()) fail("copy", "got " + src.str() + ", need the shape of " + dst.str());
  if (dst.device() != src.device()) return copy_values(dst, src.detach().to(dst.device()));
  require_apart("copy_values", dst, src);
  copy_strided(dst, src);
  dst.bump_version("copy_values");
}

}  // namespace pursuit
