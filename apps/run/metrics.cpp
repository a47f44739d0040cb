#include "apps/run/metrics.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>

#include "apps/run/files.h"
#include "engine/base/error.h"

namespace pursuit::apps {

using nlohmann::ordered_json;

std::string metrics_path(const std::string& folder) {
  return (std::filesystem::path(folder) / "metrics.jsonl").string();
}

MetricsWriter::MetricsWriter(const std::string& path, const Keep& keep) : path_(path) {
  std::string kept;
  if (keep && std::filesystem::exists(path)) {
    for (const ordered_json& line : read_metrics(path)) {
      const auto step = line.find("step");
      if (step != line.end() && step->is_number_integer() && !keep(step->get<int64_t>(), line)) continue;
      kept += line.dump() + "\n";
    }
  }
  write_file_atomically(path, kept);
  file_.open(path, std::ios::binary | std::ios::app);
  if (!file_) fail("metrics", "cannot open '" + path + "' for writing");
}

void MetricsWriter::write(int64_t step, const ordered_json& values) {
  if (!values.is_object() || values.contains("step"))
    fail("metrics", "a line must be a JSON object without \"step\": got " + values.dump());
  ordered_json line = {{"step", step}};
  line.update(values);
  file_ << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n" << std::flush;
  if (!file_) fail("metrics", "cannot write to '" + path_ + "'; check the free space on the disk");
}

std::vector<ordered_json> read_metrics(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<ordered_json> lines;
  size_t begin = 0;
  for (int64_t number = 1; begin < text.size(); ++number) {
    const size_t newline = text.find('\n', begin);
    const bool is_torn_candidate = newline == std::string::npos;
    const std::string line = text.substr(begin, newline - begin);
    begin = is_torn_candidate ? text.size() : newline + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    ordered_json object = ordered_json::parse(line, nullptr, false);
    if (object.is_object()) {
      lines.push_back(std::move(object));
    } else if (!is_torn_candidate) {
      fail("metrics", fmt::format("'{}' line {} is damaged: need one JSON object per line; remove the line",
                                  path, number));
    }
  }
  return lines;
}

std::vector<std::pair<double, double>> metric_series(const std::vector<ordered_json>& lines,
                                                     const std::string& key) {
  std::vector<std::pair<double, double>> series;
  for (const ordered_json& line : lines) {
    const auto step = line.find("step"), value = line.find(key);
    if (step == line.end() || !step->is_number() || value == line.end()) continue;
    if (!value->is_number() && !value->is_null()) continue;
    series.emplace_back(step->get<double>(),
                        value->is_null() ? std::numeric_limits<double>::quiet_NaN() : value->get<double>());
  }
  return series;
}

}  // namespace pursuit::apps
