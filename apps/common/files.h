#pragma once
#include <string>
#include <string_view>

namespace pursuit::apps {

// Replaces `path` by a file holding `bytes`, or leaves it untouched: writes under a temporary name in the
// same folder, flushes to the disk, renames, flushes the folder. Throws pursuit::Error that names the file.
void write_file_atomically(const std::string& path, std::string_view bytes);

// The whole file. Throws pursuit::Error that names the file if it cannot be read.
std::string read_file(const std::string& path);

}  // namespace pursuit::apps
