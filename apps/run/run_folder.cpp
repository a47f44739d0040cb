#include "apps/run/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "apps/run/files.h"
#include "apps/run/metrics.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace pursuit::apps {

namespace fs = std::filesystem;

namespace {

constexpr const char* checkpoints[] = {"checkpoint.safetensors", "checkpoint-previous.safetensors",
                                       "best.safetensors"};
constexpr const char* records[] = {"eval.json",     "inspect.json", "inspect.png", "inspections.jsonl",
                                   "metrics.jsonl", "report.html",  "tensorboard"};
constexpr const char* kept[] = {"config.json", "training.lock", "cache"};  // when a run is replaced

bool is_one_of(const auto& names, const fs::path& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool holds_one_of(const auto& names, const fs::path& folder) {
  return std::any_of(std::begin(names), std::end(names),
                     [&](const char* name) { return fs::exists(folder / name); });
}

}  // namespace

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
    problems.push_back(printable(e.what()));
  }
}

std::optional<int64_t> RunFolder::step() const {
  if (metrics.empty()) return std::nullopt;
  return metrics.back().value("step", int64_t(-1));
}

std::optional<double> RunFolder::last(const std::string& key) const {
  const auto series = apps::metric_series(metrics, key);
  if (series.empty() || !std::isfinite(series.back().second)) return std::nullopt;
  return series.back().second;
}

// In older runs "seconds" starts at 0 again where the run was resumed.
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

std::optional<double> RunFolder::data_wait() const {
  double sum = 0;
  int64_t count = 0;
  for (const auto& [step, share] : apps::metric_series(metrics, "data_wait"))
    if (std::isfinite(share)) sum += share, ++count;
  return count > 0 ? std::optional(sum / double(count)) : std::nullopt;
}

void remove_old_run(const std::string& folder) {
  std::error_code error;
  for (const char* name : checkpoints) fs::remove(fs::path(folder) / name, error);
  for (const char* name : records) fs::remove_all(fs::path(folder) / name, error);
}

void check_output(const std::string& file) {
  for (fs::path at = fs::absolute(file).lexically_normal(); at.has_relative_path(); at = at.parent_path()) {
    const fs::path name = at.filename(), folder = at.parent_path();
    const bool of_run = is_one_of(checkpoints, name) || is_one_of(records, name) || is_one_of(kept, name);
    if (of_run && (fs::exists(config_path(folder.string())) || holds_one_of(checkpoints, folder)))
      fail("output", file + " is kept by the run in that folder; choose another name");
  }
}

void check_is_run(const std::string& folder) {
  if (!fs::exists(config_path(folder)))
    fail("run", folder + " holds no config.json: it is not the folder of a run");
}

nlohmann::ordered_json read_json_object(const std::string& file) {
  auto json = nlohmann::ordered_json::parse(read_file(file), nullptr, false);
  if (!json.is_object()) fail("run", file + ": no JSON object; the file is damaged");
  return json;
}

std::string config_path(const std::string& folder) { return (fs::path(folder) / "config.json").string(); }

nlohmann::ordered_json config_of_run(const std::string& folder) {
  check_is_run(folder);
  return read_json_object(config_path(folder));
}

std::string run_id(const std::string& folder) {
  if (!fs::exists(config_path(folder))) return "";
  const nlohmann::ordered_json config = config_of_run(folder);
  return config.contains("id") && config["id"].is_string() ? config["id"].get<std::string>() : "";
}

std::string changes_of_run(const std::string& folder) {
  if (!fs::exists(config_path(folder))) return "";
  const nlohmann::ordered_json none, config = config_of_run(folder);
  std::string text;
  for (const auto& change : config.value("changes", nlohmann::ordered_json::array())) {
    if (!change.is_object()) continue;
    const auto value = [&](const char* key) { return change.value(key, none); };
    if (value("option") != "steps" && value("option") != "epochs") continue;
    text +=
        fmt::format("{}{} {} to {} at step {}", text.empty() ? "" : ", ", value("option").get<std::string>(),
                    value("from").dump(), value("to").dump(), value("step").dump());
  }
  return text;
}

std::string last_name(const std::string& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).filename().string();
}

}  // namespace pursuit::apps
