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

// An app's parts of a run's report.html, in the order of the page.
struct RunPage {
  std::string title, subtitle;
  std::vector<Highlight> highlights = {};  // scores; size, speed and time follow
  std::vector<Curve> curves = {};          // of training
  std::function<void(Report&)> results = {};
  std::string evaluations_caption = {};  // of the table of all entries of eval.json
  std::string samples_title = {};
  std::function<void(Report&)> samples = {};                    // adds samples; may load the model
  std::vector<std::pair<std::string, std::string>> facts = {};  // shown after the config's options
  std::vector<std::string> commands = {};  // that repeat the evaluations; shown once each
};

// The parts of a page that come from the run's config.
struct PageConfig {
  std::string app, unit;
  std::optional<int64_t> parameters;
  nlohmann::ordered_json options;  // see options_to_json
  std::string train_command;
};
void write_page(const RunFolder& run, const RunPage& page, const Table& evaluations,
                const std::optional<PageConfig>& config);

// A section of samples; if they throw, it says why it is empty. No section if `samples` is empty.
void add_samples(Report& report, const std::string& title, const std::function<void(Report&)>& samples);

using Cells = std::vector<std::pair<std::string, std::string>>;  // headings and text of a table's row
// The first cells of every evaluation's row; `unit`: unit of the samples.
Cells condition_cells(const Conditions& conditions, const std::string& unit);

// Writes a run's report.html from the files in its folder. The app defines page_of(record) and
// cells_of(results), the cells that follow the conditions in the table of evaluations.
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

// Adds a section in which add(results) writes each evaluation for which wanted(results) is true; no section
// if there is none.
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
