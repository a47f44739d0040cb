#include "apps/classify/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "apps/common/files.h"
#include "apps/common/metrics.h"
#include "nn/vit.h"

namespace pursuit::classify {

namespace {

namespace fs = std::filesystem;

Config read_config(const std::string& file) {
  const auto json = nlohmann::ordered_json::parse(apps::read_file(file), nullptr, false);
  if (!json.is_object()) fail("report", file + ": no JSON object; the file is damaged");
  return config_from_json(json, file);
}

}  // namespace

std::optional<double> RunRecord::last(const std::string& key) const {
  const auto series = apps::metric_series(metrics, key);
  if (series.empty() || !std::isfinite(series.back().second)) return std::nullopt;
  return series.back().second;
}

// The clock of a resumed run starts again at 0.
std::optional<double> RunRecord::training_seconds() const {
  double done = 0, last = 0;
  for (const auto& [step, seconds] : apps::metric_series(metrics, "seconds")) {
    if (!std::isfinite(seconds)) continue;
    if (seconds < last) done += last;
    last = seconds;
  }
  return done + last > 0 ? std::optional(done + last) : std::nullopt;
}

std::optional<double> RunRecord::images_per_second() const {
  std::vector<double> rates;
  for (const auto& [step, rate] : apps::metric_series(metrics, "images_per_second"))
    if (std::isfinite(rate)) rates.push_back(rate);
  if (rates.empty()) return std::nullopt;
  std::nth_element(rates.begin(), rates.begin() + std::ptrdiff_t(rates.size() / 2), rates.end());
  return rates[rates.size() / 2];
}

RunRecord read_record(const std::string& folder) {
  RunRecord r;
  r.folder = folder;
  r.name = fs::weakly_canonical(folder).filename().string();
  if (!fs::is_directory(folder))
    fail("report", folder + ": there is no such folder; give the folder of a run");
  const auto attempt = [&](const char* file, const auto& read) {
    const std::string path = (fs::path(folder) / file).string();
    try {
      if (fs::exists(path))
        read(path);
      else
        r.problems.push_back(fmt::format("There is no {} in {}.", file, folder));
    } catch (const std::exception& e) {
      r.problems.push_back(e.what());
    }
  };
  attempt("config.json", [&](const std::string& path) { r.config = read_config(path); });
  attempt("metrics.jsonl", [&](const std::string& path) { r.metrics = apps::read_metrics(path); });
  attempt("eval.json", [&](const std::string&) { r.results = read_results(folder); });
  return r;
}

std::string describe_attention(const Config& c) {
  return apps::describe_attention(c, c.layer < 0 ? "every block" : fmt::format("block {}", c.layer));
}

std::optional<int64_t> parameter_count(const Config& c) {
  try {
    int64_t count = 0;
    const nn::VisionTransformer model(vit_config(c));
    for (const nn::NamedTensor& p : model.parameters()) count += p.tensor->numel();
    return count;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string percent(double fraction) { return fmt::format("{:.2f}%", 100 * fraction); }

std::string budget_text(const std::string& attack, double budget) {
  if (budget == 0) return "-";
  return fmt::format("{:g}", budget) + (attack == "fgsm" || attack == "pgd" ? "/255" : "");
}

std::vector<std::pair<double, double>> attack_curve(const Results& results, const std::string& attack,
                                                    const std::string& space) {
  std::vector<std::pair<double, double>> points;
  for (const Results::Attacked& a : results.attacked)
    if (a.attack == attack && a.space == space) points.emplace_back(a.budget, 100 * a.top1);
  std::sort(points.begin(), points.end());
  if (points.size() < 2) points.clear();
  return points;
}

}  // namespace pursuit::classify
