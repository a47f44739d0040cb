#include <filesystem>

#include "apps/study/study_file.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

void read(std::string_view input) {
  const apps::Study study = apps::read_study(write("study.toml", input));
  for (const apps::Study::Variant& variant : study.variants) apps::candidates(variant);
}

// The studies of the apps.
std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const char* app : {"classify", "lm", "segment"})
    for (const auto& file :
         std::filesystem::directory_iterator(std::string(PURSUIT_APPS) + "/" + app + "/studies"))
      all.push_back(read_file(file.path()));
  return all;
}

}  // namespace

const Target target{.read = read, .seeds = seeds};

}  // namespace pursuit::fuzz
