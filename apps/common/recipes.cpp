#include "apps/common/recipes.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "engine/error.h"

namespace pursuit::apps {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> recipe_folders(const std::string& app) {
  std::vector<fs::path> folders;
  std::error_code error;
  const fs::path exe = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(exe.parent_path().parent_path() / "share/pursuit/recipes" / app);
  folders.push_back(fs::path(PURSUIT_APPS) / app / "recipes");
  return folders;
}

}  // namespace

std::vector<std::string> recipe_names(const std::string& app) {
  std::vector<std::string> names;
  for (const fs::path& folder : recipe_folders(app)) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
    if (!names.empty()) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> recipe_arguments(const std::string& app, const std::string& recipe) {
  fs::path file = recipe;
  for (const fs::path& folder : recipe_folders(app))
    if (!fs::is_regular_file(file)) file = folder / (recipe + ".toml");
  if (!fs::is_regular_file(file)) {
    std::string known;
    for (const std::string& n : recipe_names(app)) known += (known.empty() ? "" : ", ") + n;
    fail("recipe",
         "there is no recipe '" + recipe + "'; known are " + known + ", or give the path of a file");
  }
  std::ifstream in(file);
  std::vector<std::string> arguments;
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(in)) {
      std::string value;
      for (const std::string& v : item.inputs) value += (value.empty() ? "" : ",") + v;
      arguments.push_back("--" + item.fullname() + "=" + value);
    }
  } catch (const CLI::Error& e) {
    fail("recipe", file.string() + ": " + e.what());
  }
  return arguments;
}

}  // namespace pursuit::apps
