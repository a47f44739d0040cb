#pragma once
#include <map>
#include <string>

#include "engine/core/tensor.h"

namespace pursuit {

// Contents of a safetensors file: named tensors on the CPU, and metadata.
struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Reads a whole file. F64, F32, BF16, I64, I32, U8 and I8 load unchanged, F16 as f32, BOOL as u8, I16 and
// U16 as i32. Throws an Error that names the file unless it is exactly what the format allows: for a header
// over 100 MB or past the end, invalid JSON or UTF-8, duplicate names, unknown dtypes, more than 8
// dimensions, sizes whose product overflows, offsets that do not fit the shape, gaps, overlaps, trailing
// bytes.
TensorFile load_safetensors(const std::string& path);

// Writes atomically: to a temporary name, flushed, renamed; with `old_name` the previous file is kept under
// that name. Tensors may be strided and on any device.
void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {},
                      const std::string& old_name = "");

}  // namespace pursuit
