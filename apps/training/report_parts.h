#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/report.h"
#include "apps/common/run_folder.h"
#include "data/corruptions.h"

// What the reports of all apps say in the same way.
namespace pursuit::apps {

// Charts of the learning rate and the throughput, as far as the metrics have them.
void add_rate_charts(Report& report, const RunFolder& run, const std::string& unit = "images");

// The values of a metrics series in percent.
std::vector<std::pair<double, double>> in_percent(std::vector<std::pair<double, double>> points);

// Throughput and training time, as far as the metrics have them.
void add_training_highlights(std::vector<Highlight>& highlights, const RunFolder& run,
                             const std::string& unit = "images");

// Adds what of the run could not be read, and writes its report.html.
void finish_report(Report& report, const RunFolder& run);

// A config's options (see options_to_json) and, behind them, `more`.
void add_configuration(Report& report, const nlohmann::ordered_json& options,
                       const std::vector<std::pair<std::string, std::string>>& more);

// "APP train --out FOLDER ..." with the options whose values differ from the program's own.
std::string train_command(const std::string& app, const std::string& folder,
                          const nlohmann::ordered_json& own, const nlohmann::ordered_json& used);

// "--corruptions fog,snow --severities 1,2 --limit 100" for what was evaluated, a vector of name, severity
// and count; `count` pictures were evaluated without corruption.
template <class Corrupted>
std::string corruption_arguments(const std::vector<Corrupted>& corrupted, int64_t count) {
  std::set<std::string> names;
  std::set<int> severities;
  for (const Corrupted& c : corrupted) names.insert(c.name), severities.insert(c.severity);
  std::string text = fmt::format(
      "--corruptions {} --severities {}",
      names.size() < data::corruption_names().size() ? fmt::format("{}", fmt::join(names, ",")) : "all",
      fmt::join(severities, ","));
  if (corrupted[0].count < count) text += fmt::format(" --limit {}", corrupted[0].count);
  return text;
}

// A word for a shell's command line.
std::string quoted(const std::string& word);

}  // namespace pursuit::apps
