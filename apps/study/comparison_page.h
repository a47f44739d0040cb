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
  std::string app, title;  // "classify", "Comparison of 3 image classifiers"
  std::vector<Curve> curves;
  std::function<void(Report&)> sections = {};  // of the app's own
};

// Bars of everything that a comparison has in %, a series for each group.
BarChart score_bars(const std::string& title, const Comparison& comparison);

// Several runs side by side as one HTML file: the table, scores as bars, curves, and the options in which
// they differ.
void write_comparison(const std::string& file, const Comparison& comparison,
                      const std::vector<const RunFolder*>& runs, const ComparisonPage& page);
// An app's runs side by side, compared(record) being what it says of one; also as such a page where `file` is
// not empty.
template <class Record, class Compared> Comparison compare(const std::vector<Record>& records,
                                                           const Compared& compared, const std::string& file,
                                                           const ComparisonPage& page) {
  const Comparison comparison = compare(records, compared);
  std::vector<const RunFolder*> runs;
  for (const Record& record : records) runs.push_back(&record);
  if (!file.empty()) write_comparison(file, comparison, runs, page);
  return comparison;
}

}  // namespace pursuit::apps
