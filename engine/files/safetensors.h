#pragma once
#include <map>
#include <string>

#include "engine/core/tensor.h"

namespace pursuit {

// What a safetensors file holds: named tensors on the CPU, and words beside them.
struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Reads a whole file. F64, F32, BF16, I64, I32 and U8 load as they are, F16 as f32, BOOL as u8, I8, I16 and
// U16 as i32. Throws an Error that names the file where it is not exactly what the format allows: a header
// over 100 MB or past the end, broken JSON or UTF-8, names given twice, unknown dtypes, more than 8
// dimensions, sizes whose product overflows, offsets that do not fit the shape, holes, overlaps, bytes left
// over.
TensorFile load_safetensors(const std::string& path);

// Writes atomically: to a temporary name, flushed, renamed; with `old_name` the file that was there stays
// under that name. Tensors may be strided and on any device.
void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {},
                      const std::string& old_name = "");

}  // namespace pursuit
