#pragma once
#include <optional>
#include <string>

#include "apps/common/fields.h"
#include "apps/common/run_folder.h"

namespace pursuit::apps {

// What a run's folder holds, as far as it can be read, for reports and comparisons: its config and what the
// app's `read_results(folder)` finds in eval.json.
template <class Config, auto read_results>
struct RunRecord : RunFolder {
  std::optional<Config> config;
  decltype(read_results("")) results;

  explicit RunRecord(const std::string& path) : RunFolder(path) {
    attempt("config.json", [&](const std::string& file) {
      config = fields_from_json<Config>(read_json_object(file), file);
    });
    attempt("eval.json", [&](const std::string&) { results = read_results(folder); });
  }
};

// Of the Model that a config makes; empty if it makes none.
template <class Model, class Config>
std::optional<int64_t> parameter_count(const Config& config) {
  try {
    return Model(model_config(config)).parameter_count();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace pursuit::apps
