#pragma once
#include <optional>
#include <string>

#include "apps/common/fields.h"
#include "apps/common/run_folder.h"

namespace pursuit::apps {

// A run's folder and its config, for reports and comparisons. Apps add what they evaluated.
template <class Config>
struct RunRecord : RunFolder {
  std::optional<Config> config;

  explicit RunRecord(const std::string& path) : RunFolder(path) {
    attempt("config.json", [&](const std::string& file) {
      config = fields_from_json<Config>(read_json_object(file), file);
    });
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
