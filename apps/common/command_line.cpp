#include "apps/common/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>

#include "apps/common/recipes.h"

namespace pursuit::apps {

std::optional<std::string> peek(const std::vector<std::string>& args, const std::string& option) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == option && i + 1 < args.size()) return args[i + 1];
    if (args[i].starts_with(option + "=")) return args[i].substr(option.size() + 1);
  }
  return std::nullopt;
}

void insert_recipe(const std::string& app, std::vector<std::string>& args) {
  const std::optional<std::string> recipe = peek(args, "--recipe");
  if (!recipe) return;
  const std::vector<std::string> settings = recipe_arguments(app, *recipe);
  args.insert(args.begin() + 1, settings.begin(), settings.end());
}

void add_recipes_command(CLI::App& app) {
  app.add_subcommand("recipes", "List the recipes")->callback([&app] {
    for (const std::string& name : recipe_names(app.get_name())) fmt::print("{}\n", name);
  });
}

int parse(CLI::App& app, std::vector<std::string> args) {
  std::reverse(args.begin(), args.end());  // CLI11 takes a vector from its end
  try {
    app.parse(args);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return 0;
}

int run_main(int argc, char** argv, const std::function<int(std::vector<std::string>)>& body) {
  try {
    return body({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}

}  // namespace pursuit::apps
