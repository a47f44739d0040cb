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

// Autograd node of one tensor: its backward function and inputs or, for a leaf (a parameter), its
// gradient.
struct Node;

// A strided array of one dtype on one device, as in PyTorch. Copies of a handle share storage and autograd
// node; only operators compute. Sizes, strides and offsets are in elements.
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
  int wrap(int dim) const;  // resolves a negative dimension; throws if it is out of range

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
  // Call after writing to a tensor in place; `writer` names the function. It increments the storage's
  // version, so that backward of an operator that saved this tensor or a view of its storage throws instead
  // of returning a wrong gradient. Writes through data() are not counted by themselves.
  void bump_version(const char* writer) const;

  // "f32[2, 3] on cpu"
  std::string str() const;

  // Another view of the same storage, without autograd; for view operators and kernels.
  Tensor view(Shape shape, Shape strides, int64_t offset) const {
    return Tensor(storage_, shape, strides, offset, dtype_, device_);
  }

  // Autograd. A tensor has a node if it is a leaf that requires a gradient or was computed from one.
  const std::shared_ptr<Node>& node() const { return node_; }
  void set_node(std::shared_ptr<Node> node) { node_ = std::move(node); }
  bool needs_grad() const { return node_ != nullptr; }
  Tensor& requires_grad();      // makes this a leaf; throws if an operator computed it or it is not floating
  Tensor detach() const;        // the same values without autograd
  Tensor grad() const;          // of a leaf; undefined before its first backward
  void zero_grad();             // the next backward overwrites instead of accumulating
  void bind_grad(Tensor home);  // from now on the gradient accumulates in `home` (same shape, contiguous)
  // From now on to(copy.dtype()) of this f32 leaf returns `copy`, whose values the caller keeps in sync, and
  // gradients of the copy count as the leaf's: bf16 models do not cast their weights at every use.
  void bind_copy(const Tensor& copy);
  // Runs backward from this tensor and frees what its graph saved. `seed` is dLoss/dThis; without it, this
  // must be a scalar.
  void backward(const Tensor& seed) const;
  void backward() const;

  // Operators as methods; see engine/ops.h.
  Tensor reshape(const Shape& shape) const;  // one size may be -1
  Tensor transpose(int d0, int d1) const;
  Tensor permute(const std::vector<int>& dims) const;
  Tensor slice(int dim, int64_t begin, int64_t end) const;  // negative: from the end
  Tensor select(int dim, int64_t index) const;              // drops the dimension
  Tensor operator[](int64_t index) const { return select(0, index); }
  Tensor expand(const Shape& shape) const;
  Tensor contiguous() const;
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;
  Tensor sum(const std::vector<int>& dims = {}, bool keep = false) const;  // no dims: all of them
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

// Throws that argument `place` (from 1) of `count` is undefined; below, the check that all are defined.
[[noreturn]] void fail_undefined(const char* function, size_t place, size_t count);
void require_defined(const char* function, std::initializer_list<const Tensor*> arguments);

// Prints values, shape and dtype; a dimension of more than six shows its first and last three entries.
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

// Copies t.bytes() bytes into the contiguous CPU tensor t.
void fill_from(const Tensor& t, const void* values);
// Copies row-major values into a new tensor; throws unless there are shape.numel() of them.
template <class T> Tensor from_vector(const std::vector<T>& values, const Shape& shape, Device device = cpu);

// From Philox stream (seed, stream): element i is uniform word i in [lo, hi), or normal number i. Rounding to the
// dtype may give hi.
Tensor uniform(const Shape& shape, double lo, double hi, uint64_t seed, uint64_t stream,
               DType dtype = DType::f32, Device device = cpu);
Tensor normal(const Shape& shape, double mean, double std, uint64_t seed, uint64_t stream,
              DType dtype = DType::f32, Device device = cpu);

// Addition, which the tape uses for gradients; the other operators are in engine/ops.h.
Tensor add(const Tensor& a, const Tensor& b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
void add_to(const Tensor& sum, const Tensor& x);  // sum <- sum + x in place, no autograd; x broadcasts

// Copies src into dst (same shape; converts dtype and device); dst may be strided. No autograd.
void copy_values(const Tensor& dst, const Tensor& src);

struct Node {
  Node() = default;
  ~Node();
  const char* name = "leaf";
  std::vector<std::shared_ptr<Node>> inputs;  // null where no gradient is needed
  // Maps the result's gradient to those of the inputs. With `adds` it also takes the gradient accumulated so
  // far for the first input (maybe undefined) and returns the sum. Empty for a leaf, and after it ran.
  std::function<Grads(const Tensor&, Tensor)> backward;
  bool adds = false;
  // An input or result that the operator saved for backward, with the version it had.
  struct Saved {
    Storage storage;
    uint32_t writes;
  };
  std::vector<Saved> saved;
  bool leaf = true;
  Tensor grad;           // of a leaf
  int64_t arrivals = 0;  // gradients that the leaf has received so far
  bool fresh = true;     // the leaf's gradient buffer holds no gradient yet
  bool bound = false;    // grad is a buffer set by bind_grad
  Tensor copy;           // the leaf's values in another dtype, see bind_copy
};

// While one lives, this thread records no operators (torch.no_grad).
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
  fill_from(t, values.data());
  return t.to(device);
}

}  // namespace pursuit
