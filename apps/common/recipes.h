#pragma once
#include <string>
#include <vector>

// Recipes: settings of `train` as TOML files, in apps/APP/recipes and, once installed, in
// share/pursuit/recipes/APP beside the program's folder.
namespace pursuit::apps {

std::vector<std::string> recipe_names(const std::string& app);

// "--name=value" for every entry of a recipe: the name of one of the app's, or a file's path. Throws with the
// list of names.
std::vector<std::string> recipe_arguments(const std::string& app, const std::string& recipe);

}  // namespace pursuit::apps
