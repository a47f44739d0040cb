#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/command/options.h"
#include "engine/base/error.h"

// Recipes: settings of `train` as TOML files, in apps/APP/recipes and, once installed, in
// share/pursuit/recipes/APP beside the program's folder.
namespace pursuit::apps {

struct Recipe {
  std::string name, file;
  // `requires-data` in the file: the data set that the settings are made for, without which a training would
  // learn something else. Empty: what is built in will do.
  std::string requires_data;
  std::vector<std::pair<std::string, std::string>> settings;  // as on a command line, without the dashes
};

std::vector<std::string> recipe_names(const std::string& app);

// The name of one of the app's, or a file's path. Throws Error with the list of names, or naming the file.
Recipe read_recipe(const std::string& app, const std::string& name);

// Gives the settings to options of the same names. Throws Error that names the file and the setting.
void set_options(const Recipe& recipe, CLI::App& options);

// Whether a config names data, as those of most apps can, and not what is built in.
template <class Config> bool names_data(const Config& config) {
  if constexpr (requires { config.data; }) return !config.data.empty();
  return false;
}

// What the settings say becomes what the options start from.
template <class Config> void apply(const Recipe& recipe, Config& config) {
  CLI::App options;
  add_options(options, config);
  set_options(recipe, options);
}

// The app's validate(config), of a config that begins with the recipe: its Error names the recipe if that is
// as wrong by itself, without what the command line says beside it.
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
