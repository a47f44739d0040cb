#include "apps/training/provenance.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "apps/run/files.h"
#include "apps/run/run_folder.h"
#include "engine/core/device.h"
#include "engine/cpu/parallel.h"
#include "engine/program/describe.h"

namespace pursuit::apps {

namespace {

// The model name of the first processor; "unknown" if the system does not tell.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string new_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

nlohmann::ordered_json provenance(const std::string& device) {
  return {{"version", PURSUIT_VERSION},
          {"commit", build_commit},
          {"processor", processor()},
          {"device", describe(device_from_name(device))},
          {"threads", num_threads()}};
}

Conditions conditions(const TrainingFields& fields, const std::string& weights, int64_t step,
                      const std::string& run) {
  return {.data = {},
          .weights = weights,
          .step = step,
          .dtype = name_of(fields.dtype),
          .made_by = provenance(fields.device),
          .run = run};
}

void write_config(const std::string& folder, nlohmann::ordered_json config, const std::string& app,
                  const std::string& device, int64_t step) {
  const std::string file = config_path(folder);
  nlohmann::ordered_json all = nlohmann::ordered_json::array(), now = {{"app", app}};
  now.update(provenance(device));
  config["id"] = new_id();
  if (step > 0 && std::filesystem::exists(file)) {
    const auto before = read_json_object(file);
    if (before.contains("made-by") && before["made-by"].is_array()) all = before["made-by"];
    if (const std::string id = run_id(folder); !id.empty()) config["id"] = id;
  }
  nlohmann::ordered_json last = all.empty() ? nlohmann::ordered_json() : all.back();
  if (last.is_object()) last.erase("from");
  if (last != now) {
    now["from"] = step;
    all.push_back(std::move(now));
  }
  config["made-by"] = std::move(all);
  write_file_atomically(file, config.dump(2) + "\n");
}

}  // namespace pursuit::apps
