#include "apps/segment/run_record.h"

#include "engine/error.h"

namespace pursuit::segment {

RunRecord::RunRecord(const std::string& folder) : apps::RunFolder(folder) {
  attempt("config.json",
          [&](const std::string& path) { config = config_from_json(apps::read_json_object(path), path); });
  attempt("eval.json", [&](const std::string&) { results = read_results(folder); });
}

std::optional<int64_t> RunRecord::parameter_count() const {
  if (!config) return std::nullopt;
  try {
    int64_t count = 0;
    const nn::Segmenter model(segmenter_config(*config));
    for (const nn::NamedTensor& p : model.parameters()) count += p.tensor->numel();
    return count;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace pursuit::segment
