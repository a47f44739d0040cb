#include "apps/study/curves.h"

#include "apps/run/metrics.h"

namespace pursuit::apps {

LineSeries series_of(const RunFolder& run, const Curve& curve, const Curve::Line& line,
                     const std::string& name) {
  LineSeries series{.name = name,
                    .points = metric_series(run.metrics, line.key),
                    .dashed = line.dashed,
                    .smooth = line.smooth};
  for (auto& [step, value] : series.points) value *= curve.scale;
  return series;
}

}  // namespace pursuit::apps
