#pragma once
#include <CLI/CLI.hpp>

#include "apps/command/options.h"
#include "apps/command/recipes.h"

namespace pursuit::apps {

template <class Config> void apply(const Recipe& recipe, Config& config) {
  CLI::App options;
  add_options(options, config);
  set_options(recipe, options);
}

}  // namespace pursuit::apps
