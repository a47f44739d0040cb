#include "apps/common/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "apps/common/files.h"
#include "apps/common/metrics.h"
#include "engine/error.h"

namespace pursuit::apps {

namespace fs = std::filesystem;

RunFolder::RunFolder(const std::string& path)
    : folder(path), name(fs::weakly_canonical(path).filename().string()) {
  if (!fs::is_directory(folder))
    fail("report", folder + ": there is no such folder; give the folder of a run");
  attempt("metrics.jsonl", [&](const std::string& file) { metrics = read_metrics(file); });
}

void RunFolder::attempt(const char* file, const std::function<void(const std::string&)>& read) {
  const std::string path = (fs::path(folder) / file).string();
  try {
    if (fs::exists(path))
      read(path);
    else
      problems.push_back(fmt::format("There is no {} in {}.", file, folder));
  } catch (const std::exception& e) {
    problems.push_back(e.what());
  }
}

std::optional<double> RunFolder::last(const std::string& key) const {
  const auto series = apps::metric_series(metrics, key);
  if (series.empty() || !std::isfinite(series.back().second)) return std::nullopt;
  return series.back().second;
}

// The clock of a resumed run starts again at 0.
std::optional<double> RunFolder::training_seconds() const {
  double done = 0, last = 0;
  for (const auto& [step, seconds] : apps::metric_series(metrics, "seconds")) {
    if (!std::isfinite(seconds)) continue;
    if (seconds < last) done += last;
    last = seconds;
  }
  return done + last > 0 ? std::optional(done + last) : std::nullopt;
}

std::optional<double> RunFolder::per_second(const std::string& unit) const {
  std::vector<double> rates;
  for (const auto& [step, rate] : apps::metric_series(metrics, unit + "_per_second"))
    if (std::isfinite(rate)) rates.push_back(rate);
  if (rates.empty()) return std::nullopt;
  std::nth_element(rates.begin(), rates.begin() + std::ptrdiff_t(rates.size() / 2), rates.end());
  return rates[rates.size() / 2];
}

nlohmann::ordered_json read_json_object(const std::string& file) {
  auto json = nlohmann::ordered_json::parse(read_file(file), nullptr, false);
  if (!json.is_object()) fail("run", file + ": no JSON object; the file is damaged");
  return json;
}

std::string config_path(const std::string& folder) { return (fs::path(folder) / "config.json").string(); }

nlohmann::ordered_json config_of_run(const std::string& folder) {
  const std::string file = config_path(folder);
  if (!fs::exists(file)) fail("run", folder + " holds no config.json: it is not the folder of a run");
  return read_json_object(file);
}

std::string last_name(const std::string& path) {
  const fs::path normal = fs::path(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).filename().string();
}

}  // namespace pursuit::apps
