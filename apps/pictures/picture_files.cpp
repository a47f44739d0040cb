#include "apps/pictures/picture_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <new>

#include "apps/terminal/print.h"
#include "data/dataset.h"
#include "engine/base/error.h"

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

int for_each_file(const std::vector<std::string>& files,
                  const std::function<void(const std::string&, int64_t)>& work,
                  const std::function<void(const std::string&, const std::string&)>& failed) {
  int code = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    std::string why;
    try {
      work(files[i], int64_t(i));
      continue;
    } catch (const Error& e) {
      why = e.what();
    } catch (const std::bad_alloc&) {
      why = "out of memory; use a smaller picture";
    }
    if (why.find(files[i]) == why.npos) why = files[i] + ": " + why;
    note("error: {}\n", why);
    if (failed) failed(files[i], why);
    code = 1;
  }
  return code;
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
