#pragma once
#include <functional>
#include <string>
#include <vector>

#include "apps/common/report.h"
#include "apps/training/comparison.h"

namespace pursuit::apps {

// A chart over the steps of training, a line for each run that has the metric.
struct Curve {
  std::string title, key, unit;
  double scale = 1;
  bool smooth = false;
};

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

}  // namespace pursuit::apps
