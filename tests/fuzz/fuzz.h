#pragma once
#include <string>
#include <string_view>
#include <vector>

// What a fuzz target is made of; main.cpp is what libFuzzer calls.
namespace pursuit::fuzz {

using Parts = std::vector<std::string>;

struct Target {
  // Reads the input as the program would. An Error is the answer that bad input gets; whatever else is thrown
  // is a finding, as is every crash.
  void (*read)(std::string_view input);
  // The parts of an input that are mutated one at a time, and the input that is made of them again, its
  // lengths and checksums right. Empty where the input is no such thing; null: the input is one part.
  Parts (*split)(std::string_view input) = nullptr;
  std::string (*join)(const Parts& parts) = nullptr;
  // Inputs to begin with that the program itself can write; the others are in corpus/.
  std::vector<std::string> (*seeds)() = nullptr;
};

// Each target's file has one.
extern const Target target;

// A path in the target's own folder, which is in memory and removed at the end.
std::string path_of(const std::string& name);
// Writes a file there, folders included, and returns its path.
std::string write(const std::string& name, std::string_view bytes);
// A whole file, wherever it is.
std::string read_file(const std::string& path);

// Several files in one input: a line "@@ NAME", the file's bytes, a newline, and the next file.
struct File {
  std::string name, bytes;
};
std::vector<File> files_of(std::string_view input);
std::string input_of(const std::vector<File>& files);
// Writes all of them into a folder of that name, which holds no other file afterwards.
std::string write_folder(const std::string& name, std::string_view input);
// The files of a folder that have one of the names, as an input.
std::string read_folder(const std::string& folder, const std::vector<std::string>& names);
// The split and join of such inputs: of each file its name and its bytes, unpacked where the name ends in
// .gz.
Parts split_files(std::string_view input);
std::string join_files(const Parts& parts);

}  // namespace pursuit::fuzz
