#pragma once
#include <string>

#include "apps/training/checksums.h"
#include "engine/base/error.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

// Writes the input as a checkpoint, verifies its checksums and returns its path. Wrong checksums are ignored,
// since the target loads the file without verification.
inline std::string write_checkpoint(std::string_view input) {
  const std::string path = write("checkpoint.safetensors", input);
  const TensorFile file = load_safetensors(path);
  try {
    apps::verify_checksums(file, path);
  } catch (const Error&) {
  }
  return path;
}

}  // namespace pursuit::fuzz
