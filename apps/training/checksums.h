#pragma once
#include <map>
#include <string>

#include "engine/files/safetensors.h"

// Checksums of a checkpoint, in its metadata under "xxh3_64". The value is a JSON object: for every tensor's
// name the XXH3-64 of its bytes as 16 hexadecimal digits, and under "__metadata__" that of the other
// metadata, hashed as keys and values that each end with a zero byte. Other readers of safetensors ignore it.
namespace pursuit::apps {

void add_checksums(const std::map<std::string, Tensor>& tensors,
                   std::map<std::string, std::string>& metadata);

// Returns false if the file has no checksums. Throws Error that names the file and the first damaged tensor.
bool verify_checksums(const TensorFile& file, const std::string& path);

}  // namespace pursuit::apps
