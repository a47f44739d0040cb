#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/report.h"
#include "apps/common/run_folder.h"

// What the reports of all apps say in the same way.
namespace pursuit::apps {

// Charts of the learning rate and the throughput, as far as the metrics have them.
void add_rate_charts(Report& report, const RunFolder& run, const std::string& unit = "images");

// The values of a metrics series in percent.
std::vector<std::pair<double, double>> in_percent(std::vector<std::pair<double, double>> points);

// A config's options and, behind them, `more`. What follows from the data (classes, colours, channels, mean,
// std, vocabulary) is left out.
void add_configuration(Report& report, const nlohmann::ordered_json& config,
                       const std::vector<std::pair<std::string, std::string>>& more);

// "APP train --out FOLDER ..." with the options whose values differ from the program's own.
std::string train_command(const std::string& app, const std::string& folder,
                          const nlohmann::ordered_json& own, const nlohmann::ordered_json& used);

// A word for a shell's command line.
std::string quoted(const std::string& word);

}  // namespace pursuit::apps
