#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/page/report.h"
#include "apps/run/run_lock.h"
#include "apps/study/curves.h"
#include "apps/study/reproduce.h"
#include "apps/study/run_record.h"

namespace pursuit::apps {

// What an app says in the report.html of a run, in this order, between what every report has.
struct RunPage {
  std::string title, subtitle;
  std::vector<Highlight> highlights = {};  // of the results; behind them size, speed and time
  std::vector<Curve> curves = {};          // of the training
  std::function<void(Report&)> results = {};
  std::string evaluations_caption = {};  // of the table of everything in eval.json
  std::string samples_title = {};
  std::function<void(Report&)> samples = {};                    // what loads the model
  std::vector<std::pair<std::string, std::string>> facts = {};  // behind the config's options
  std::vector<std::string> commands = {};                       // that evaluated
};

// What a page says of the run itself; empty where its config cannot be read.
struct PageConfig {
  std::string app, unit;
  std::optional<int64_t> parameters;
  nlohmann::ordered_json options;  // see options_to_json
  std::string train_command;
};
void write_page(const RunFolder& run, const RunPage& page, const Table& evaluations,
                const std::optional<PageConfig>& config);

using Cells = std::vector<std::pair<std::string, std::string>>;  // headings and text of a table's row
// What every row on an evaluation begins with; `unit` is of the samples.
Cells condition_cells(const Conditions& conditions, const std::string& unit);

// Writes the report.html of a run from what its folder holds. Beside the app's Record stand page_of(record)
// and cells_of(results), which a row of the table of evaluations has behind its conditions.
template <class Record> void write_report(const std::string& folder) {
  using Config = typename Record::Config;
  const FolderLock lock(folder);
  Record record(folder);
  const RunPage page = page_of(record);
  Table evaluations;
  for (const auto& results : record.results) {
    Cells row = condition_cells(results, Config::unit == std::string("images") ? "pictures" : Config::unit);
    for (auto& cell : cells_of(results)) row.push_back(std::move(cell));
    row.emplace_back("by", program(results));
    evaluations.columns.clear();
    evaluations.rows.emplace_back();
    for (auto& [heading, text] : row) {
      evaluations.columns.push_back(std::move(heading));
      evaluations.rows.back().push_back(std::move(text));
    }
  }
  std::optional<PageConfig> config;
  if (record.config)
    config = {Config::app, Config::unit, parameter_count(*record.config), options_to_json(*record.config),
              train_command(record.folder, *record.config)};
  write_page(record, page, evaluations, config);
}

// A section of what add(results) writes of each evaluation for which wanted(results) holds; none without one.
template <class Results, class Wanted, class Add>
void add_section(Report& report, const std::string& title, const std::string& about,
                 const std::vector<Results>& evaluations, Wanted wanted, Add add) {
  bool begun = false;
  for (const Results& results : evaluations) {
    if (!wanted(results)) continue;
    if (!begun) {
      report.section(title);
      if (!about.empty()) report.paragraph(about);
    }
    begun = true;
    add(results);
  }
}

}  // namespace pursuit::apps
