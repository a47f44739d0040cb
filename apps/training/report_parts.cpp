#include "apps/training/report_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>

#include "apps/common/fields.h"
#include "apps/common/metrics.h"
#include "apps/common/text.h"

namespace pursuit::apps {

void add_rate_charts(Report& report, const RunFolder& run, const std::string& unit) {
  if (const auto lr = metric_series(run.metrics, "lr"); !lr.empty())
    report.chart(LineChart{"Learning rate", "step", "", {{.name = "lr", .points = lr}}});
  if (const auto rate = metric_series(run.metrics, unit + "_per_second"); !rate.empty())
    report.chart(LineChart{"Throughput", "step", unit + "/s", {{.name = "training", .points = rate}}});
}

std::vector<std::pair<double, double>> in_percent(std::vector<std::pair<double, double>> points) {
  for (auto& [x, y] : points) y *= 100;
  return points;
}

void add_training_highlights(std::vector<Highlight>& highlights, const RunFolder& run,
                             const std::string& unit) {
  if (const auto rate = run.per_second(unit))
    highlights.push_back({"Throughput", format_count(*rate) + "/s", "training " + unit});
  if (const auto seconds = run.training_seconds())
    highlights.push_back({"Training time", format_duration(*seconds), "with evaluations"});
}

void finish_report(Report& report, const RunFolder& run) {
  if (!run.problems.empty()) report.section("Not in this report");
  for (const std::string& problem : run.problems) report.paragraph(problem);
  report.write((std::filesystem::path(run.folder) / "report.html").string());
}

void add_configuration(Report& report, const nlohmann::ordered_json& options,
                       const std::vector<std::pair<std::string, std::string>>& more) {
  report.section("Configuration");
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [name, value] : options.items())
    if (const std::string text = option_text(value); !text.empty()) entries.emplace_back(name, text);
  entries.insert(entries.end(), more.begin(), more.end());
  report.key_values(entries);
}

size_t count_differences(const nlohmann::ordered_json& of, const nlohmann::ordered_json& used) {
  size_t count = 0;
  for (const auto& [name, value] : used.items()) count += value != of.at(name);
  return count;
}

std::string train_command(const std::string& app, const std::string& folder, const std::string& recipe,
                          const nlohmann::ordered_json& of, const nlohmann::ordered_json& used) {
  std::string command =
      app + " train" + (recipe.empty() ? "" : " --recipe " + recipe) + " --out " + quoted(folder);
  for (const auto& [name, value] : used.items())
    if (value != of.at(name)) command += " --" + name + " " + quoted(option_text(value));
  return command;
}

std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || strchr("-_./,=+:", c);
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace pursuit::apps
