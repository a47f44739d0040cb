#pragma once
#include <string>

#include "engine/core/tensor.h"
#include "engine/files/atomic_file.h"

namespace pursuit::data {

// One array in NumPy's .npy format, versions 1 to 3, C or Fortran order, little endian: f8, f4, i8, i4 and u1 load
// unchanged, f2 as f32, i2 and i1 as i32, b1 as u8. The constructor reads the header. Throws an Error that names the
// file for anything else.
class NpyFile {
 public:
  explicit NpyFile(const std::string& path);
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Tensor load() const;
  // The rows [begin, end) of the first dimension, without reading the others (but all in Fortran order).
  Tensor rows(int64_t begin, int64_t end) const;

 private:
  // An array of that shape whose elements begin at byte `at` and follow each other.
  Tensor read(const Shape& shape, size_t at) const;

  InputFile file_;
  Shape shape_;
  DType dtype_ = DType::f32;
  size_t data_at_ = 0, element_ = 0;  // bytes
  bool fortran_ = false;
};

// The whole array.
Tensor load_npy(const std::string& path);

// Writes atomically, in C order, with 64-byte aligned data. NumPy has no bf16: it is written as
// f4.
void save_npy(const std::string& path, const Tensor& t);

}  // namespace pursuit::data
