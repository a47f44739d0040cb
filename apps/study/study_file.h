#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "apps/command/recipes.h"

namespace pursuit::apps {

// A study as its TOML file describes it:
//   recipe = "nano"            the recipe that all runs start from (left out: the app's defaults)
//   seeds = [0, 1, 2]          of the runs of every variant (left out: 0)
//   requires-data = "..."      what --data must name, unless [options] does
//   [options]                  options of `train` for all runs
//   [variants.NAME]            options of `train` for one variant, and `recipe` if it starts from another one;
//                              the first variant is compared with
//   [variants.NAME.choose]     options, each with a list of values, of which the best is chosen
//   [evaluations.NAME]         options of `eval`, for every run; the value "{VARIANT}" stands for the folder
//                              of that variant's run with the same seed
//   [quantizations.NAME]       options of `quantize`: of every run another one, which is evaluated too
// Names are made of letters, digits, '-', '_' and '+'. Recipes here are parts of the file: `file` names file
// and section.
struct Study {
  struct Variant {
    std::string recipe;  // instead of the study's; empty: none of its own
    Recipe options;
    std::vector<std::pair<std::string, std::vector<std::string>>> choose;  // options and their values
  };

  std::string file, name;  // name: the file's without ".toml"
  std::string recipe;
  std::vector<uint64_t> seeds;
  Recipe options;
  std::vector<Variant> variants;
  std::vector<Recipe> evaluations, quantizations;
};

// Throws Error that names the file, and the key or section that is wrong.
Study read_study(const std::string& file);

// The variant with every combination of the values to choose among; the variant itself if it chooses nothing.
// Named "rpc-lambda=4".
std::vector<Recipe> candidates(const Study::Variant& variant);

}  // namespace pursuit::apps
