#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "apps/common/options.h"
#include "apps/common/recipes.h"

// As `APP train --recipe NAME BESIDE` reads it.
template <class Config>
Config config_of_recipe(const std::string& app, const std::string& name,
                        const std::vector<std::string>& beside = {}) {
  Config config;
  CLI::App parser;
  pursuit::apps::add_options(parser, config);
  std::vector<std::string> arguments = pursuit::apps::recipe_arguments(app, name);
  arguments.insert(arguments.end(), beside.begin(), beside.end());
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes the last first
  parser.parse(arguments);
  return config;
}
