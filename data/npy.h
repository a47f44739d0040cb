#pragma once
#include <string>

#include "engine/core/tensor.h"

namespace pursuit::data {

// Reads one array in NumPy's .npy format, versions 1 to 3, C or Fortran order, little endian: f8, f4, i8, i4
// and u1 load unchanged, f2 as f32, i2 and i1 as i32, b1 as u8. Throws an Error that names the file for
// anything else.
Tensor load_npy(const std::string& path);

// Writes atomically, in C order, with 64-byte aligned data. NumPy has no bf16: it is written as
// f4.
void save_npy(const std::string& path, const Tensor& t);

}  // namespace pursuit::data
