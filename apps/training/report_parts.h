#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/fields.h"
#include "apps/common/json.h"
#include "apps/common/recipes.h"
#include "apps/common/report.h"
#include "apps/common/run_folder.h"
#include "data/corruptions.h"

// What the reports of all apps say in the same way.
namespace pursuit::apps {

// A train command that begins with a recipe (empty: none), whose options are `of`; and in how many they
// differ.
std::string train_command(const std::string& app, const std::string& folder, const std::string& recipe,
                          const nlohmann::ordered_json& of, const nlohmann::ordered_json& used);
size_t count_differences(const nlohmann::ordered_json& of, const nlohmann::ordered_json& used);

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

// "APP train --recipe NAME --out FOLDER ..." with the options whose values differ from those of the recipe
// that takes the fewest, or of none; and a line on what --resume changed.
template <class Config>
std::string train_command(const std::string& app, const std::string& folder, const Config& config) {
  const nlohmann::ordered_json used = options_to_json(config);
  std::string best = train_command(app, folder, "", options_to_json(Config{}), used);
  size_t fewest = count_differences(options_to_json(Config{}), used);
  for (const std::string& name : recipe_names(app)) {
    try {
      const Recipe recipe = read_recipe(app, name);
      if (!recipe.requires_data.empty() && config.data.empty()) continue;
      Config start;
      apply(recipe, start);
      const nlohmann::ordered_json of = options_to_json(start);
      if (count_differences(of, used) >= fewest) continue;
      fewest = count_differences(of, used);
      best = train_command(app, folder, name, of, used);
    } catch (const Error&) {
      // A damaged recipe is no reason to have no report.
    }
  }
  if (const std::string changes = changes_of_run(folder); !changes.empty())
    best += "\n# --resume changed " + changes + "; one training with these settings gives other weights";
  return best;
}

// Which corruptions a vector of name and severity holds: "all at 1-5", "fog, snow at 2", "fog at 1,3; snow at
// 2". In brief more than three are only counted: "5 types at 1,3,5".
template <class Corrupted>
std::string corruption_set(const std::vector<Corrupted>& corrupted, bool brief = false) {
  std::map<std::string, std::set<int>> severities;
  for (const Corrupted& c : corrupted) severities[c.name].insert(c.severity);
  std::map<std::set<int>, std::vector<std::string>> names;
  for (const auto& [name, at] : severities) names[at].push_back(name);
  std::string text;
  for (const auto& [at, of] : names) {
    const bool range = at.size() > 1 && int64_t(*at.rbegin()) - *at.begin() + 1 == int64_t(at.size());
    text += fmt::format(
        "{}{} at {}", text.empty() ? "" : "; ",
        of.size() == data::corruption_names().size() ? "all"
        : brief && of.size() > 3                     ? fmt::format("{} types", of.size())
                                                     : fmt::format("{}", fmt::join(of, ", ")),
        range ? fmt::format("{}-{}", *at.begin(), *at.rbegin()) : fmt::format("{}", fmt::join(at, ",")));
  }
  return text;
}

// "--corruptions fog,snow --severities 1,2" for what was evaluated, a vector of name and severity.
template <class Corrupted>
std::string corruption_arguments(const std::vector<Corrupted>& corrupted) {
  std::set<std::string> names;
  std::set<int> severities;
  for (const Corrupted& c : corrupted) names.insert(c.name), severities.insert(c.severity);
  return fmt::format(
      "--corruptions {} --severities {}",
      names.size() < data::corruption_names().size() ? fmt::format("{}", fmt::join(names, ",")) : "all",
      fmt::join(severities, ","));
}

// A word for a shell's command line.
std::string quoted(const std::string& word);

}  // namespace pursuit::apps
