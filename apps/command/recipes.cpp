#include "apps/command/recipes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <sstream>

#include "apps/command/choice.h"
#include "apps/command/command_line.h"
#include "apps/run/files.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace pursuit::apps {

namespace {

namespace fs = std::filesystem;

// Those of "segment interactive" are in segment/interactive.
std::vector<fs::path> recipe_folders(std::string app) {
  std::replace(app.begin(), app.end(), ' ', '/');
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

Recipe read_recipe(const std::string& app, const std::string& name) {
  std::error_code error;
  fs::path file = name;
  for (const fs::path& folder : recipe_folders(app))
    if (!fs::exists(file, error) || fs::is_directory(file, error)) file = folder / (name + ".toml");
  if (!fs::exists(file, error)) {
    const std::vector<std::string> known = recipe_names(app);
    fail("recipe", fmt::format("there is no recipe '{}'{}; known are {}, or give the path of a file", name,
                               did_you_mean(name, known), fmt::join(known, ", ")));
  }
  Recipe recipe{name, file.string(), {}, {}};
  for (const CLI::ConfigItem& item : read_toml("recipe", recipe.file)) {
    if (item.name == "++" || item.name == "--") continue;
    if (item.fullname() == "requires-data")
      recipe.requires_data = joined(item);
    else
      recipe.settings.emplace_back(item.fullname(), joined(item));
  }
  return recipe;
}

namespace {

// TOML forbids a section or a key twice; the parser would merge them.
void refuse_repeats(const char* reader, const std::string& file, std::istringstream text) {
  std::set<std::string> seen;
  std::string section;
  for (std::string line; std::getline(text, line);) {
    const std::string words = CLI::detail::trim_copy(line);
    const bool begins = words.starts_with('[');
    const size_t end = words.find(begins ? ']' : '=');
    if (end == std::string::npos) continue;
    const std::string name = CLI::detail::trim_copy(words.substr(begins, end - begins)),
                      rest = CLI::detail::trim_copy(words.substr(end + 1));
    const auto is_plain = [](unsigned char c) {
      return std::isalnum(c) || c == '-' || c == '_' || c == '+' || c == '.';
    };
    // Other lines continue a list or a string.
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_plain)) continue;
    if (begins && !rest.empty() && !rest.starts_with('#')) continue;
    if (begins) section = name;
    const std::string full = begins ? "[" + section + "]" : section + " " + name;
    if (!seen.insert(full).second)
      fail(reader, begins ? fmt::format("{}: the section [{}] occurs twice; rename or join them", file, name)
                          : fmt::format("{}: '{}' occurs twice{}; remove one", file, name,
                                        section.empty() ? "" : " in [" + section + "]"));
  }
}

}  // namespace

std::vector<CLI::ConfigItem> read_toml(const char* reader, const std::string& file) {
  constexpr uintmax_t largest = 1 << 20;
  std::error_code error;
  if (const auto size = fs::file_size(file, error); !error && size > largest)
    fail(reader, fmt::format("{} has {} bytes, need at most {}", file, size, largest));
  const std::string all = read_file(file);
  std::istringstream text{std::string(without_byte_order_mark(all))};
  refuse_repeats(reader, file, std::istringstream(text.str()));
  try {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML().from_config(text);
    for (const CLI::ConfigItem& item : items) {
      // The parser strips quotes only from complete strings.
      const std::string value = joined(item);
      if (const char quote = value.empty() ? ' ' : value[0]; quote == '"' || quote == '\'')
        fail(reader, fmt::format("{}: '{}': the string {} does not end", file, item.fullname(), value));
    }
    return items;
  } catch (const CLI::Error& e) {
    fail(reader, file + ": " + e.what());
  }
}

std::string joined(const CLI::ConfigItem& item) { return fmt::format("{}", fmt::join(item.inputs, ",")); }

void set_options(const Recipe& recipe, CLI::App& options) {
  const std::string command = options.get_name().empty() ? "train" : options.get_name();
  for (const auto& [name, value] : recipe.settings) {
    CLI::Option* option = options.get_option_no_throw("--" + name);
    if (!option || option == options.get_help_ptr())
      fail("recipe", fmt::format("{}: there is no setting '{}'{}; `{} --help` lists them", recipe.file, name,
                                 did_you_mean(name, option_names(options)), command));
    try {
      option->clear();
      option->add_result(value);
      option->run_callback();
      option->clear();
    } catch (const CLI::Error& e) {
      fail("recipe", fmt::format("{}: '{}': {}", recipe.file, name, e.what()));
    }
  }
}

}  // namespace pursuit::apps
