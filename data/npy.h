#pragma once
#include <string>

#include "engine/core/tensor.h"

namespace pursuit::data {

// Reads one array of NumPy's .npy format, versions 1 to 3, in C or Fortran order, little endian: f8, f4, i8,
// i4 and u1 load as they are, f2 as f32, i2 and i1 as i32, b1 as u8. Throws an Error that names the file on
// anything else.
Tensor load_npy(const std::string& path);

// Writes atomically, in C order, data beginning at a multiple of 64 bytes. NumPy has no bf16: it is written
// as f4.
void save_npy(const std::string& path, const Tensor& t);

}  // namespace pursuit::data
