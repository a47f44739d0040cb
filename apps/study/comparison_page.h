#pragma once
#include <functional>
#include <string>
#include <vector>

#include "apps/page/report.h"
#include "apps/study/comparison.h"
#include "apps/study/curves.h"

namespace pursuit::apps {

// What an app adds to the page that compares its runs.
struct ComparisonPage {
  std::string title;  // "Comparison of 3 image classifiers"
  std::vector<Curve> curves;
  std::function<void(Report&)> sections = {};  // of the app's own
};

// Bars of everything that a comparison has in %, a series for each group.
BarChart score_bars(const std::string& title, const Comparison& comparison);

// Several runs side by side as one HTML file: the table, scores as bars, curves, and the options in which
// they differ.
void write_comparison(const std::string& file, const std::string& app, const Comparison& comparison,
                      const std::vector<const RunFolder*>& runs, const ComparisonPage& page);

// An app's runs side by side, also as such a page where `file` is not empty. Beside the app's Record stand
// compared(record) and comparison_page(records). Throws Error that names the folder and what it lacks if one
// is no run.
template <class Record>
Comparison compare_runs(const std::vector<std::string>& folders, const std::string& file = "") {
  const std::vector<Record> records = read_runs<Record>(folders);
  const Comparison comparison = compare(records, [](const Record& run) { return compared(run); });
  std::vector<const RunFolder*> runs;
  for (const Record& record : records) runs.push_back(&record);
  if (!file.empty()) write_comparison(file, Record::Config::app, comparison, runs, comparison_page(records));
  return comparison;
}

}  // namespace pursuit::apps
