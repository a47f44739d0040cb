#pragma once
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

// A PNG in parts: type and data of every chunk.
Parts split_png(std::string_view input);
std::string join_png(const Parts& parts);

}  // namespace pursuit::fuzz
