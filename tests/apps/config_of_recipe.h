#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "apps/command/options.h"
#include "apps/command/recipes.h"

// The config of `APP train --recipe NAME BESIDE`.
template <class Config> Config config_of_recipe(const std::string& app, const std::string& name,
                                                std::vector<std::string> beside = {}) {
  Config config;
  pursuit::apps::apply(pursuit::apps::read_recipe(app, name), config);
  CLI::App parser;
  pursuit::apps::add_options(parser, config);
  std::reverse(beside.begin(), beside.end());  // CLI11 takes the last first
  parser.parse(beside);
  return config;
}
