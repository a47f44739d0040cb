#include "apps/training/report_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "apps/common/metrics.h"

namespace pursuit::apps {

namespace {

std::string text_of(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const auto& v : value) list += (list.empty() ? "" : ",") + text_of(v);
  return list;
}

// The rest of a config follows from the data.
bool is_option(const std::string& name) {
  return name != "channels" && name != "classes" && name != "colours" && name != "mean" && name != "std" &&
         name != "vocabulary" && name != "unknown-share";
}

}  // namespace

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

void add_configuration(Report& report, const nlohmann::ordered_json& config,
                       const std::vector<std::pair<std::string, std::string>>& more) {
  report.section("Configuration");
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [name, value] : config.items())
    if (const std::string text = text_of(value); is_option(name) && !text.empty())
      entries.emplace_back(name, text);
  entries.insert(entries.end(), more.begin(), more.end());
  report.key_values(entries);
}

std::string train_command(const std::string& app, const std::string& folder,
                          const nlohmann::ordered_json& own, const nlohmann::ordered_json& used) {
  std::string command = app + " train --out " + quoted(folder);
  for (const auto& [name, value] : used.items())
    if (is_option(name) && value != own.at(name)) command += " --" + name + " " + quoted(text_of(value));
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
