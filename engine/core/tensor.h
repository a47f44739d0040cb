#pragma once
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/device.h"
#include "engine/core/dtype.h"
#include "engine/core/memory.h"
#include "engine/core/shape.h"

namespace pursuit {

class Tensor;
using Grads = std::vector<Tensor>;

// What the tape remembers of one tensor: how its gradient reaches the inputs it was computed from, or, for a
// leaf (a parameter), where its gradient collects.
struct Node;

// A handle on a strided array of one dtype on one device. Copies share storage and tape; nothing is copied
// until an operator computes. Sizes, strides and offsets count elements.
class Tensor {
 public:
  Tensor();
  Tensor(Storage storage, Shape shape, Shape strides, int64_t offset, DType dtype, Device device)
      : storage_(std::move(storage)),
        shape_(shape),
        strides_(strides),
        offset_(offset),
        dtype_(dtype),
        device_(device) {}

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  int64_t offset() const { return offset_; }
  int ndim() const { return shape_.size(); }
  int64_t size(int dim) const { return shape_[wrap(dim)]; }
  int64_t stride(int dim) const { return strides_[wrap(dim)]; }
  int64_t numel() const { return shape_.numel(); }
  int64_t bytes() const { return numel() * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  bool is_contiguous() const;
  int wrap(int dim) const;  // counts a negative dimension from the end; throws if there is no such one

  void* raw() const {
    if (!storage_) fail_undefined("data");
    return static_cast<char*>(storage_.get()) + offset_ * size_of(dtype_);
  }
  template <class T> T* data() const {
    if (dtype_of<T>() != dtype_)
      fail("tensor", std::string("data<") + name_of(dtype_of<T>()) + "> of a " + str());
    return static_cast<T*>(raw());
  }
  const Storage& storage() const { return storage_; }
  // For functions that write to a tensor in place: `writer` has. The storage's version counts it, so that the
  // backward of an operator that saved this tensor, or a view of the same storage, says so instead of giving
  // a wrong gradient. Writes through data() do not count by themselves.
  void bump_version(const char* writer) const;

  // "f32[2, 3] on cpu"
  std::string str() const;

  // Another view of the same storage, off the tape; used by view operators and kernels.
  Tensor view(Shape shape, Shape strides, int64_t offset) const {
    return Tensor(storage_, shape, strides, offset, dtype_, device_);
  }

  // Autograd. A tensor is on the tape if it is a leaf that requires a gradient or was computed from one.
  const std::shared_ptr<Node>& node() const { return node_; }
  void set_node(std::shared_ptr<Node> node) { node_ = std::move(node); }
  bool needs_grad() const { return node_ != nullptr; }
  Tensor& requires_grad();  // makes this a leaf; throws if it was computed by an operator or is not floating
  Tensor detach() const;    // the same values, off the tape
  Tensor grad() const;      // of a leaf; undefined before the first backward
  void zero_grad();         // the next backward overwrites instead of adding
  void bind_grad(Tensor home);  // the leaf's gradient collects in `home` (same shape, contiguous) from now on
  // to(copy.dtype()) of this f32 leaf is `copy` from now on, which the caller keeps equal to the values, and
  // gradients of the copy are the leaf's: weights of a model that computes in bf16 are not cast at every use.
  void bind_copy(const Tensor& copy);
  // Runs the tape from this tensor and frees what it saved. `seed` is dLoss/dThis; without one this is a
  // scalar loss.
  void backward(const Tensor& seed) const;
  void backward() const;

  // Operators that read well as methods; see engine/ops.h.
  Tensor reshape(const Shape& shape) const;  // one size may be -1
  Tensor transpose(int d0, int d1) const;
  Tensor permute(const std::vector<int>& dims) const;
  Tensor slice(int dim, int64_t begin, int64_t end) const;  // negative counts from the end
  Tensor select(int dim, int64_t index) const;              // drops the dimension
  Tensor operator[](int64_t index) const { return select(0, index); }
  Tensor expand(const Shape& shape) const;
  Tensor contiguous() const;
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;
  Tensor sum(const std::vector<int>& dims = {}, bool keep = false) const;  // no dims: over all of them
  Tensor mean(const std::vector<int>& dims = {}, bool keep = false) const;
  Tensor max() const;  // over all elements; along a dimension: max_along
  Tensor min() const;

  double item() const;                    // the value of a tensor of one element
  std::vector<double> to_vector() const;  // all values in row-major order

 private:
  [[noreturn]] void fail_undefined(const char* method) const;

  Storage storage_;
  Shape shape_, strides_;
  int64_t offset_ = 0;
  DType dtype_ = DType::f32;
  Device device_;
  std::shared_ptr<Node> node_;
};

// The error of an undefined argument `place`, from 1, of `count`; and the check of all that must be defined.
[[noreturn]] void fail_undefined(const char* function, size_t place, size_t count);
void require_defined(const char* function, std::initializer_list<const Tensor*> arguments);

// Its values, shape and dtype; of more than six of a dimension the first and the last three.
std::ostream& operator<<(std::ostream& out, const Tensor& x);

Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = cpu);
Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = cpu);
Tensor full(const Shape& shape, double value, DType dtype = DType::f32, Device device = cpu);
inline Tensor ones(const Shape& shape, DType dtype = DType::f32, Device device = cpu) {
  return full(shape, 1.0, dtype, device);
}
Tensor empty_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor arange(int64_t n, DType dtype = DType::i64, Device device = cpu);

// Copies values (row-major) into a new tensor; throws unless there are shape.numel() of them.
template <class T> Tensor from_vector(const std::vector<T>& values, const Shape& shape, Device device = cpu);

// Philox stream (seed, stream): element i is word i's uniform in [lo, hi), or normal number i.
Tensor uniform(const Shape& shape, double lo, double hi, uint64_t seed, uint64_t stream,
               DType dtype = DType::f32, Device device = cpu);
Tensor normal(const Shape& shape, double mean, double std, uint64_t seed, uint64_t stream,
              DType dtype = DType::f32, Device device = cpu);

// Writes src's values into dst (same shape; converts dtype and device); dst may be strided. Off the tape.
void copy_values(const Tensor& dst, const Tensor& src);

struct Node {
  Node() = default;
  ~Node();
  const char* name = "leaf";
  std::vector<std::shared_ptr<Node>> inputs;  // null where no gradient is wanted
  // Of the result's gradient and, with `adds`, what the first input's is so far, which may be undefined: the
  // gradient that is given for it is then the sum. Empty for a leaf, and once run.
  std::function<Grads(const Tensor&, Tensor)> backward;
  bool adds = false;
  // What the operator holds of its inputs and its result until its backward has run, as it was.
  struct Saved {
    Storage storage;
    uint32_t writes;
  };
  std::vector<Saved> saved;
  bool leaf = true;
  Tensor grad;           // of a leaf
  int64_t arrivals = 0;  // gradients that the leaf ever got
  bool fresh = true;     // the leaf's gradient holds nothing yet
  bool bound = false;    // grad is a buffer that bind_grad gave
  Tensor copy;           // a leaf's values in another dtype, see bind_copy
};

// While one lives, operators of this thread record nothing.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};
bool grad_enabled();

template <class T> Tensor from_vector(const std::vector<T>& values, const Shape& shape, Device device) {
  if (int64_t(values.size()) != shape.numel())
    fail("from_vector", "got " + std::to_string(values.size()) + " values, need " +
                            std::to_string(shape.numel()) + " for " + shape.str());
  Tensor t = empty(shape, dtype_of<T>());
  if (!values.empty()) memcpy(t.raw(), values.data(), values.size() * sizeof(T));
  return t.to(device);
}

}  // namespace pursuit
