#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/run/evaluations.h"
#include "apps/run/fields.h"
#include "apps/run/run_folder.h"
#include "engine/core/shapes_only.h"

namespace pursuit::apps {

// The app that trained the run in a folder, for example "classify"; empty if unknown.
std::string app_of_run(const std::string& folder);
// Throws Error that names the folder if it is a run of another app.
void check_app(const std::string& folder, const std::string& app);

// Config and evaluations of a run's folder, for reports and comparisons. Files that cannot be read are noted
// in `problems`.
template <class ConfigType, class ResultsType> struct RunRecord : RunFolder {
  using Config = ConfigType;
  using Results = ResultsType;

  std::optional<Config> config;
  std::string changes;           // see changes_of_run
  std::vector<Results> results;  // all of eval.json
  std::vector<Results> newest;   // of these, the results of the run's current step, see of_last_step

  explicit RunRecord(const std::string& path) : RunFolder(path) {
    check_app(folder, Config::app);
    attempt("config.json", [&](const std::string& file) {
      config = fields_from_json<Config>(read_json_object(file), file);
      changes = changes_of_run(folder);
    });
    attempt("eval.json", [&](const std::string&) { results = read_evaluations<Results>(folder); });
    newest = of_last_step(results, *this);
  }
};

// Throws Error that names the folder and what it lacks.
[[noreturn]] void fail_no_run(const RunFolder& run);

// The options by which a comparison groups runs. They include the changes of --resume, which make a run
// another setting. Ranks and accumulated batches count as one number, batches per step.
template <class Record> nlohmann::ordered_json compared_options(const Record& run) {
  nlohmann::ordered_json options = options_to_json(*run.config);
  options.erase("ranks");
  options.erase("accumulate");
  options["batches a step"] = run.config->ranks * run.config->accumulate;
  options["changed by --resume"] = run.changes;
  return options;
}

// Reads the runs in several folders. A run is named by its folder's last name, or by the whole path if names
// repeat. Throws Error that names a folder that is no run of the app.
template <class Record> std::vector<Record> read_runs(const std::vector<std::string>& folders) {
  std::vector<Record> runs;
  std::multiset<std::string> names;
  for (const std::string& folder : folders) {
    runs.emplace_back(folder);
    if (!runs.back().config) fail_no_run(runs.back());
    names.insert(runs.back().name);
  }
  for (Record& run : runs)
    if (names.count(run.name) > 1) run.name = run.folder;
  return runs;
}

// The number of parameters of a config's model, of a quantised one those of the model that it was made of; empty if
// the config is invalid. Does not allocate the model.
template <class Config> std::optional<int64_t> parameter_count(Config config) {
  if constexpr (requires { config.is_quantized(); }) config.weight_bits = config.activation_bits = 0;
  try {
    const ShapesOnly only;
    return typename Config::Model(model_config(config)).parameter_count();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace pursuit::apps
