#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"

// Recipes: settings of `train` as TOML files, in apps/APP/recipes and, once installed, in
// share/pursuit/recipes/APP beside the program's folder.
namespace CLI {
class App;
struct ConfigItem;
}  // namespace CLI

namespace pursuit::apps {

struct Recipe {
  std::string name, file;
  // "requires-data" in the file: the data set of the settings. If not empty, --data must be given.
  std::string requires_data;
  std::vector<std::pair<std::string, std::string>> settings;  // options without dashes, and their values
};

std::vector<std::string> recipe_names(const std::string& app);

// The settings in a TOML file, in order, with "++" and "--" where a section begins and ends. Throws Error
// that starts with `reader` and names the file.
std::vector<CLI::ConfigItem> read_toml(const char* reader, const std::string& file);
// A setting's value as on a command line: lists are joined by commas.
std::string joined(const CLI::ConfigItem& item);

// Reads one of the app's recipes, or a file by its path. Throws Error that lists the names or names the file.
Recipe read_recipe(const std::string& app, const std::string& name);

// Sets the options of the same names; `options` are of `train` unless they have a name. Throws Error that
// names the file and the setting.
void set_options(const Recipe& recipe, CLI::App& options);

// True if the config has a data folder, and does not use built-in data.
template <class Config> bool names_data(const Config& config) {
  if constexpr (requires { config.data; }) return !config.data.empty();
  return false;
}

// Sets the config's fields to the recipe's settings. Defined in apply.h; an app instantiates it once, because
// CLI11 is seven seconds of compile time in every file that includes it.
template <class Config> void apply(const Recipe& recipe, Config& config);

// Calls the app's validate(config) for a config made from the recipe and the command line. If the recipe
// alone gives the same Error, the Error names the recipe's file.
template <class Config> void validate_with(const Recipe& recipe, const Config& config) {
  try {
    validate(config);
  } catch (const Error& error) {
    Config alone;
    apply(recipe, alone);
    try {
      validate(alone);
    } catch (const Error& own) {
      if (std::string(own.what()) == error.what()) fail("recipe", recipe.file + ": " + own.what());
    }
    throw;
  }
}

}  // namespace pursuit::apps
