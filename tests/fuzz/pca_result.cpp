#include <algorithm>

#include "apps/pca/bars.h"
#include "apps/pca/result.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

// Any experiment's file; the names of those that are read are in the input.
void read(std::string_view input) {
  const std::string folder = write_folder("pca", input);
  for (const pca::Experiment& experiment : pca::all_experiments(false))
    if (const auto result = pca::read_result(folder, experiment.name)) pca::bars_of(*result);
}

// A curve on exact risks, one on drawn prompts, and a sweep.
std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const char* name : {"3b", "4a", "8b"}) {
    pca::Experiment e = pca::experiment_named(name, false);
    e.setting.steps = 3, e.setting.runs = 2, e.setting.per_covariance = 2;
    e.values.resize(std::min<size_t>(e.values.size(), 2));
    const std::string folder = path_of("seed-" + e.name);
    write_folder("seed-" + e.name, "");
    pca::write_result(pca::run_experiment(e, 0, [](int64_t) { return true; }).value(), folder);
    all.push_back(read_folder(folder, {e.name + ".json"}));
  }
  return all;
}

}  // namespace

const Target target{.read = read, .split = split_files, .join = join_files, .seeds = seeds};

}  // namespace pursuit::fuzz
