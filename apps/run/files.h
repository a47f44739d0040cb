#pragma once
#include <string>
#include <string_view>

namespace pursuit::apps {

// Replaces `path` by a file holding `bytes`, or leaves it untouched (AtomicFile). Errors name the file.
void write_file_atomically(const std::string& path, std::string_view bytes);

// Reads a regular file. Errors name the file.
std::string read_file(const std::string& path);

}  // namespace pursuit::apps
