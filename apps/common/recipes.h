#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/options.h"

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

// What the settings say becomes what the options start from.
template <class Config>
void apply(const Recipe& recipe, Config& config) {
  CLI::App options;
  add_options(options, config);
  set_options(recipe, options);
}

}  // namespace pursuit::apps
