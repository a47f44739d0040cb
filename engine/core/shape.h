#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "engine/base/error.h"

namespace pursuit {

// Sizes (or strides, in elements) of up to eight dimensions, kept inline so that a view allocates nothing.
class Shape {
 public:
  static constexpr int max_dims = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) {
    for (int64_t s : sizes) push_back(s);
  }
  explicit Shape(const std::vector<int64_t>& sizes) {
    for (int64_t s : sizes) push_back(s);
  }

  int size() const { return n_; }
  bool empty() const { return n_ == 0; }
  int64_t operator[](int i) const { return d_[i]; }
  int64_t& operator[](int i) { return d_[i]; }
  int64_t back() const { return d_[n_ - 1]; }
  int64_t& back() { return d_[n_ - 1]; }
  const int64_t* begin() const { return d_; }
  const int64_t* end() const { return d_ + n_; }

  void push_back(int64_t s) {
    if (n_ == max_dims) fail("shape", "more than 8 dimensions");
    d_[n_++] = s;
  }
  void insert(int at, int64_t s) {
    push_back(s);
    for (int i = n_ - 1; i > at; --i) d_[i] = d_[i - 1];
    d_[at] = s;
  }
  void erase(int at) {
    for (int i = at; i + 1 < n_; ++i) d_[i] = d_[i + 1];
    --n_;
  }

  bool operator==(const Shape& o) const {
    if (n_ != o.n_) return false;
    for (int i = 0; i < n_; ++i)
      if (d_[i] != o.d_[i]) return false;
    return true;
  }

  // The number of elements; throws if the product overflows or a size is negative.
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t s : *this) {
      if (s < 0) fail("shape", "negative size in " + str());
      if (__builtin_mul_overflow(n, s, &n)) fail("shape", "the product of " + str() + " overflows");
    }
    return n;
  }

  std::string str() const {
    std::string s = "[";
    for (int i = 0; i < n_; ++i) s += (i ? ", " : "") + std::to_string(d_[i]);
    return s + "]";
  }

 private:
  int64_t d_[max_dims] = {};
  int n_ = 0;
};

inline Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    strides[i] = step;
    // Only a shape without elements may overflow: numel() has refused the others.
    if (__builtin_mul_overflow(step, shape[i], &step)) step = 0;
  }
  return strides;
}

// The broadcast shape of a and b by NumPy's rules.
inline Shape broadcast_shapes(const Shape& a, const Shape& b, const char* where) {
  Shape out = a.size() >= b.size() ? a : b;
  const Shape& low = a.size() >= b.size() ? b : a;
  const int lead = out.size() - low.size();
  for (int i = 0; i < low.size(); ++i) {
    int64_t& o = out[lead + i];
    if (o == low[i] || low[i] == 1) continue;
    if (o != 1) fail(where, "shapes " + a.str() + " and " + b.str() + " do not broadcast");
    o = low[i];
  }
  return out;
}

}  // namespace pursuit
