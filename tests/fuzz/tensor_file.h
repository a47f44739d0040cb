#pragma once
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

// A safetensors file in parts: the header without the words of its metadata, each of those words, the data.
Parts split_tensor_file(std::string_view input);
std::string join_tensor_file(const Parts& parts);

}  // namespace pursuit::fuzz
