#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pursuit::apps {

struct LineSeries {
  std::string name = {};
  std::vector<std::pair<double, double>> points = {};  // (x, y) by ascending x; non-finite y: a gap
  bool dashed = false;
  bool dots = false;  // dots without a line: a scatter
  // With more than 20 points: LOESS, a local linear fit over 1/20 of the points to either side. The raw line
  // is drawn faintly behind it.
  bool smooth = false;
  std::vector<std::pair<double, double>> band = {};  // (low, high) at every point, shaded; empty: none
};

struct LineChart {
  std::string title, x_label, y_label;
  std::vector<LineSeries> series;     // one without points takes its colour but is not drawn
  bool log_x = false, log_y = false;  // points that are not positive are left out
  std::string caption = {};
};

struct BarSeries {
  std::string name;
  std::vector<double> values;  // one per group; NaN: no bar
};

// Horizontal bars from zero with their values, grouped: for example one group per corruption, one series per
// model.
struct BarChart {
  std::string title, value_label;
  std::vector<std::string> groups;
  std::vector<BarSeries> series;
  int decimals = 1;
  std::string caption = {};
};

struct ConfusionChart {
  std::string title;
  std::vector<std::string> classes;
  std::vector<int64_t> counts;  // [true class, predicted class]
  std::string caption = {};
};

// The HTML of a chart, for use in a Report. Throws pursuit::Error if sizes do not match.
std::string to_html(const LineChart& chart);
std::string to_html(const BarChart& chart);
// A table with shaded cells and the recall of every class; above 30 classes an image of the matrix.
std::string to_html(const ConfusionChart& matrix);

// The parts that all charts share: title, measured quantity, legend (omitted for a single series), body,
// caption.
struct LegendEntry {
  std::string name;
  bool dashed = false, drawn = true;
};
std::string chart_figure(const std::string& title, const std::string& measure,
                         const std::vector<LegendEntry>& legend, const std::string& body,
                         const std::string& caption, bool wide);

}  // namespace pursuit::apps
