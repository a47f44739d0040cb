#pragma once
#include <string>
#include <vector>

#include "apps/page/charts.h"
#include "apps/run/metrics.h"
#include "apps/run/run_folder.h"

namespace pursuit::apps {

// A chart of metrics over the steps of training. `key` is a key of metrics.jsonl. A run's report shows all
// lines, a comparison the first line of every run.
struct Curve {
  struct Line {
    std::string key, name;
    bool dashed = false, smooth = false;
  };
  std::string title, unit;
  std::vector<Line> lines;
  double scale = 1;
  std::string caption = {};
};
// A metric in [0, 1] as a curve in percent.
inline Curve percent_curve(const std::string& title, const std::string& key, const std::string& name) {
  return {.title = title, .unit = "%", .lines = {{key, name}}, .scale = 100};
}

// A run's data for a line, called `name`; without points if the metrics lack the key.
inline LineSeries series_of(const RunFolder& run, const Curve& curve, const Curve::Line& line,
                            const std::string& name) {
  LineSeries series{.name = name,
                    .points = metric_series(run.metrics, line.key),
                    .dashed = line.dashed,
                    .smooth = line.smooth};
  for (auto& [step, value] : series.points) value *= curve.scale;
  return series;
}

}  // namespace pursuit::apps
