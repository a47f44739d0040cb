#include "apps/common/picture_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "data/dataset.h"
#include "engine/error.h"

namespace pursuit::apps {

namespace fs = std::filesystem;

std::vector<std::string> picture_files(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  for (const std::string& name : given) {
    if (!fs::is_directory(name)) {
      files.push_back(name);
      continue;
    }
    const size_t before = files.size();
    for (const std::string& file : data::list_folder(name).files)
      if (data::is_image_file(file)) files.push_back((fs::path(name) / file).string());
    if (files.size() == before) fail("pictures", name + ": the folder holds no JPEG or PNG pictures");
  }
  return files;
}

std::string folder_for(const std::string& out, const std::string& run_or_file, const std::string& name) {
  if (!out.empty()) return out;
  const fs::path run =
      fs::is_directory(run_or_file) ? fs::path(run_or_file) : fs::path(run_or_file).parent_path();
  return (run / name).string();
}

std::string UniqueStems::operator()(const std::string& file) {
  const std::string stem = fs::path(file).stem().string();
  std::string name = stem;
  for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("{}-{}", stem, i);
  return name;
}

}  // namespace pursuit::apps
