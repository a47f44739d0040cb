#include <filesystem>

#include "apps/classify/config.h"
#include "apps/command/recipes.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

void read(std::string_view input) {
  classify::Config config;
  apps::apply(apps::read_recipe("classify", write("recipe.toml", input)), config);
}

// The recipes of the apps.
std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const char* app : {"classify", "lm", "segment"})
    for (const auto& file :
         std::filesystem::directory_iterator(std::string(PURSUIT_APPS) + "/" + app + "/recipes"))
      all.push_back(read_file(file.path()));
  return all;
}

}  // namespace

const Target target{.read = read, .seeds = seeds};

}  // namespace pursuit::fuzz
