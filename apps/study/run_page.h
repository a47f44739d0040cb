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
  Table evaluations = {};  // a row for everything in eval.json
  std::string evaluations_caption = {};
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
void write_page(const RunFolder& run, const RunPage& page, const std::optional<PageConfig>& config);

// Writes the report.html of a run from what its folder holds; page_of(record) is what the app says.
template <class Record, class PageOf> void write_run_page(const std::string& folder, const PageOf& page_of) {
  using Config = typename Record::Config;
  const FolderLock lock(folder);
  Record record(folder);
  const RunPage page = page_of(record);
  std::optional<PageConfig> config;
  if (record.config)
    config = {Config::app, Config::unit, parameter_count(*record.config), options_to_json(*record.config),
              train_command(record.folder, *record.config)};
  write_page(record, page, config);
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
