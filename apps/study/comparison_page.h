#pragma once
#include <functional>
#include <string>
#include <vector>

#include "apps/page/report.h"
#include "apps/study/comparison.h"
#include "apps/study/curves.h"

namespace pursuit::apps {

// An app's part of the page that compares runs.
struct ComparisonPage {
  struct Detail {
    std::string title;
    Comparison comparison;
  };
  std::string title;  // for example "Comparison of 3 image classifiers"
  std::vector<Curve> curves;
  std::vector<Detail> details = {};            // more numbers, such as those of every corruption
  std::function<void(Report&)> sections = {};  // adds the app's own sections
  std::function<void(Report&)> samples = {};   // adds samples of drawn_runs(); may load the models
};

// The runs whose curves and samples are shown: the first of every variant of a study, or all.
std::vector<const RunFolder*> drawn_runs(const std::vector<const RunFolder*>& runs);

// A bar chart of all percentages in a comparison, one series per group.
BarChart score_bars(const std::string& title, const Comparison& comparison);

// Writes a comparison as one HTML file: table, score bars, curves and differing options.
void write_comparison(const std::string& file, const std::string& app, const Comparison& comparison,
                      const std::vector<const RunFolder*>& runs, const ComparisonPage& page);

// The runs as write_comparison takes them.
template <class Record> std::vector<const RunFolder*> folders_of(const std::vector<Record>& records) {
  std::vector<const RunFolder*> runs;
  for (const Record& record : records) runs.push_back(&record);
  return runs;
}

// Compares an app's runs; writes the page too if `file` is not empty. The app defines compared(record) and
// comparison_page(records) for its Record. Throws Error that names a folder that is no run.
template <class Record>
Comparison compare_runs(const std::vector<std::string>& folders, const std::string& file = "") {
  const std::vector<Record> records = read_runs<Record>(folders);
  const Comparison comparison = compare(records, [](const Record& run) { return compared(run); });
  if (!file.empty())
    write_comparison(file, Record::Config::app, comparison, folders_of(records), comparison_page(records));
  return comparison;
}

}  // namespace pursuit::apps
