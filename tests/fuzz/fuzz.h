#pragma once
#include <string>
#include <string_view>
#include <vector>

// The interface of a fuzz target; main.cpp has the functions that libFuzzer calls.
namespace pursuit::fuzz {

using Parts = std::vector<std::string>;

struct Target {
  // Reads the input as the program would. Bad input must throw an Error; any other exception and any crash is
  // a bug.
  void (*read)(std::string_view input);
  // Splits an input into parts that are mutated one at a time, and joins them with correct lengths and
  // checksums. split returns no parts for an invalid input. Null: the input is one part.
  Parts (*split)(std::string_view input) = nullptr;
  std::string (*join)(const Parts& parts) = nullptr;
  // Initial inputs that the program can write itself; the others are in corpus/.
  std::vector<std::string> (*seeds)() = nullptr;
};

// Defined by each target's file.
extern const Target target;

// A path in the target's temporary folder, which is in memory and removed at the end.
std::string path_of(const std::string& name);
// Writes a file there, folders included, and returns its path.
std::string write(const std::string& name, std::string_view bytes);
// Reads a whole file at any path.
std::string read_file(const std::string& path);

// Several files in one input: a line "@@ NAME", the file's bytes, a newline, and the next file.
struct File {
  std::string name, bytes;
};
std::vector<File> files_of(std::string_view input);
std::string input_of(const std::vector<File>& files);
// Writes all files to a folder of that name and removes its other files.
std::string write_folder(const std::string& name, std::string_view input);
// Makes an input of the files of a folder that have one of the names.
std::string read_folder(const std::string& folder, const std::vector<std::string>& names);
// Split and join for such inputs: the name and the bytes of each file, decompressed if the name ends in .gz.
Parts split_files(std::string_view input);
std::string join_files(const Parts& parts);

}  // namespace pursuit::fuzz
