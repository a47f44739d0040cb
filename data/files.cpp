#include "data/files.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/files/atomic_file.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

std::string first_few(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 5; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > 5) text += ", ...";
  return text.empty() ? "none" : text;
}

// In small letters.
std::string ending_of(const std::string& name) {
  std::string ending = fs::path(name).extension().string();
  for (char& c : ending) c = char(std::tolower(static_cast<unsigned char>(c)));
  return ending;
}

}  // namespace

Listing list_folder(const std::string& path) {
  Listing listing;
  std::error_code error;
  for (fs::directory_iterator it(path, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name[0] == '.') continue;
    std::error_code ignored;
    (it->is_directory(ignored) ? listing.folders : listing.files).push_back(name);
  }
  if (error) fail("dataset", path + " cannot be read: " + error.message());
  std::sort(listing.files.begin(), listing.files.end());
  std::sort(listing.folders.begin(), listing.folders.end());
  return listing;
}

std::vector<std::string> read_lines(const std::string& path) {
  const InputFile file(path);
  if (file.size() > max_list_bytes)
    fail("dataset", path + " holds " + std::to_string(file.size()) + " bytes, a list at most " +
                        std::to_string(max_list_bytes) + ": check that it is the right file");
  const std::string all = file.read_all();
  std::istringstream text{std::string(without_byte_order_mark(all))};
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!is_utf8(line))
      fail("dataset", path + ": '" + printable(line.substr(0, 200)) + (line.size() > 200 ? "...'" : "'") +
                          " is not UTF-8; convert the file, or rename what it names");
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

bool has_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool has_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

void require_folder(const char* where, const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) {
    if (access(path.c_str(), R_OK | X_OK) == 0) return;
    fail(where, path + " cannot be read: " + std::strerror(errno));
  }
  if (fs::exists(status)) fail(where, path + " is not a folder: give the folder that holds the data");
  if (status.type() == fs::file_type::not_found) fail(where, path + " does not exist: check the path");
  fail(where, path + " cannot be looked at: " + error.message());
}

std::string name_below(const std::string& root, const std::string& path) {
  const fs::path below = fs::path(path).lexically_relative(root);
  return below.empty() || *below.begin() == ".." ? path : below.string();
}

bool is_image_file(const std::string& name) {
  const std::string ending = ending_of(name);
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

bool is_png_file(const std::string& name) { return ending_of(name) == ".png"; }

std::string folder_with(const std::string& path, const std::string& inner,
                        const std::vector<std::string>& words) {
  const auto holds_one = [&](const std::string& folder) {
    for (const std::string& name : list_folder(folder).files)
      for (const std::string& word : words)
        if (name.find(word) != std::string::npos) return true;
    return false;
  };
  if (holds_one(path)) return path;
  const std::string below = (fs::path(path) / inner).string();
  return has_folder(below) && holds_one(below) ? below : "";
}

std::string listed(const std::vector<std::string>& words, const char* before_last) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 < words.size() ? ", " : before_last) + words[i];
  return text;
}

std::string contents_of(const std::string& folder) {
  const Listing found = list_folder(folder);
  return std::to_string(found.files.size()) + " files (" + first_few(found.files) + ") and " +
         std::to_string(found.folders.size()) + " folders (" + first_few(found.folders) + ")";
}

}  // namespace pursuit::data
