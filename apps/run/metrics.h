#pragma once
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/json.h"

namespace pursuit::apps {

std::string metrics_path(const std::string& folder);  // of metrics.jsonl in a run's folder

// Writes metrics.jsonl: one JSON object per line, {"step": 100, ...}, flushed line by line.
class MetricsWriter {
 public:
  using Keep = std::function<bool(int64_t step, const nlohmann::ordered_json& line)>;

  // Starts a new file. With `keep` continues the old file: keeps the lines for which it is true and lines
  // without a step, drops a partial last line. Throws pursuit::Error that names the file.
  explicit MetricsWriter(const std::string& path, const Keep& keep = {});

  // `values` is a JSON object without "step". Values that are not finite are written as null (JSON has no
  // NaN).
  void write(int64_t step, const nlohmann::ordered_json& values);

 private:
  std::string path_;
  std::ofstream file_;
};

// All lines of a metrics.jsonl without a partial last line (its writer was killed). Throws Error that names
// file and line if another line is damaged.
std::vector<nlohmann::ordered_json> read_metrics(const std::string& path);

// The (step, value) pairs of the lines that have `key`; null is NaN.
std::vector<std::pair<double, double>> metric_series(const std::vector<nlohmann::ordered_json>& lines,
                                                     const std::string& key);

}  // namespace pursuit::apps
