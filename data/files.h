#pragma once
#include <cstddef>
#include <string>
#include <vector>

// Folders and lists that data sets are made of. All throw pursuit::Error that names the path.
namespace pursuit::data {

// The visible names in a folder, sorted.
struct Listing {
  std::vector<std::string> files, folders;
};
Listing list_folder(const std::string& path);

// The non-empty lines of a text file of at most max_list_bytes, without byte order mark.
inline constexpr size_t max_list_bytes = size_t(64) << 20;  // many times the longest list of a published set
std::vector<std::string> read_lines(const std::string& path);

// Whether the path is a folder, or a regular file; false also if it is not accessible.
bool has_folder(const std::string& path);
bool has_file(const std::string& path);
// Throws Error that says why it is not a folder: missing, a file, or not accessible.
void require_folder(const char* where, const std::string& path);

// `path` if the name of a file in it contains one of the words, else its subfolder `inner` if that has such a
// file, else empty.
std::string folder_with(const std::string& path, const std::string& inner,
                        const std::vector<std::string>& words);

// A path relative to the folder `root`, or as it is if it lies elsewhere.
std::string name_below(const std::string& root, const std::string& path);

// Whether the name ends in .jpg, .jpeg or .png, in any case.
bool is_image_file(const std::string& name);
bool is_png_file(const std::string& name);

// "a, b and c"
std::string listed(const std::vector<std::string>& words, const char* before_last);
// "2 files (a.txt, b.txt) and 0 folders (none)", of many names the first five
std::string contents_of(const std::string& folder);

}  // namespace pursuit::data
