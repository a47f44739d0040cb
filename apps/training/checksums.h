#pragma once
#include <map>
#include <string>

#include "engine/files/safetensors.h"

// Checksums of a checkpoint, in its metadata under "xxh3_64": a JSON object that gives for every tensor's
// name XXH3-64 of its bytes as 16 hexadecimal digits, and under "__metadata__" that of the other metadata,
// each key and each value with a zero byte behind it. Other readers of safetensors pass over it.
namespace pursuit::apps {

void add_checksums(const std::map<std::string, Tensor>& tensors,
                   std::map<std::string, std::string>& metadata);

// Throws Error that names the file and the first damaged tensor. False: the file holds no checksums.
bool verify_checksums(const TensorFile& file, const std::string& path);

}  // namespace pursuit::apps
