#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "tests/fuzz/fuzz.h"

// Several files in one input.
namespace pursuit::fuzz {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view mark = "@@ ";
constexpr size_t most = size_t(1) << 20;  // bytes of a decompressed file

// Whether the name is a plain file name, so that nothing is written elsewhere.
bool is_plain(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.size() < 64 &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '-' || c == '_'; });
}

// The decompressed bytes; empty if it is not a gzip file or too large.
std::string gunzip(const std::string& bytes) {
  z_stream z{};
  if (inflateInit2(&z, 15 + 16) != Z_OK) return "";
  std::string out(most, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = uInt(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = uInt(out.size());
  const int end = inflate(&z, Z_FINISH);
  out.resize(end == Z_STREAM_END ? z.total_out : 0);
  inflateEnd(&z);
  return out;
}

std::string gzip(const std::string& bytes) {
  z_stream z{};
  if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return "";
  std::string out(deflateBound(&z, uLong(bytes.size())) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = uInt(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = uInt(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

}  // namespace

std::vector<File> files_of(std::string_view input) {
  std::vector<File> files;
  if (!input.starts_with(mark)) return files;
  while (!input.empty()) {
    input.remove_prefix(mark.size());
    const size_t name = std::min(input.find('\n'), input.size());
    files.push_back({std::string(input.substr(0, name)), {}});
    input.remove_prefix(std::min(name + 1, input.size()));
    const std::string next = "\n" + std::string(mark);
    const size_t end = std::min(input.find(next), input.size());
    files.back().bytes = input.substr(0, end);
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  return files;
}

std::string input_of(const std::vector<File>& files) {
  std::string input;
  for (const File& file : files)
    input += std::string(input.empty() ? "" : "\n") + std::string(mark) + file.name + "\n" + file.bytes;
  return input;
}

std::string write_folder(const std::string& name, std::string_view input) {
  const std::string path = path_of(name);
  fs::create_directories(path);
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.is_regular_file()) fs::remove(entry.path());
  for (const File& file : files_of(input))
    if (is_plain(file.name) && !fs::is_directory(fs::path(path) / file.name))
      write(name + "/" + file.name, file.bytes);
  return path;
}

std::string read_folder(const std::string& folder, const std::vector<std::string>& names) {
  std::vector<File> files;
  for (const std::string& name : names) {
    const fs::path path = fs::path(folder) / name;
    if (fs::exists(path)) files.push_back({name, read_file(path)});
  }
  return input_of(files);
}

Parts split_files(std::string_view input) {
  Parts parts;
  for (const File& file : files_of(input))
    parts.insert(parts.end(), {file.name, file.name.ends_with(".gz") ? gunzip(file.bytes) : file.bytes});
  return parts;
}

std::string join_files(const Parts& parts) {
  std::vector<File> files;
  for (size_t i = 0; i + 1 < parts.size(); i += 2)
    files.push_back({parts[i], parts[i].ends_with(".gz") ? gzip(parts[i + 1]) : parts[i + 1]});
  return input_of(files);
}

}  // namespace pursuit::fuzz
