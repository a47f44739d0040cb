#pragma once
#include <functional>
#include <string>
#include <vector>

#include "apps/run/json.h"
#include "apps/training/task.h"
#include "nn/inspection.h"

// What inspections measure (nn/inspection.h), in files and as metrics of training.
namespace pursuit::apps {

// Numbers that are not finite become null, and NaN again. Throws if the heads of a layer do not fit together.
nlohmann::ordered_json to_json(const std::vector<nn::LayerMeasures>& layers);
std::vector<nn::LayerMeasures> layers_from_json(const nlohmann::ordered_json& json);

// inspections.jsonl in a run's folder: a line {"step", "layers"} for every inspection in training.
std::string inspections_path(const std::string& folder);

double mean_over_heads(const nn::LayerMeasures& layer,
                       const std::function<double(const nn::HeadMeasures&)>& get);

// Means over layers and heads, as metrics of training: inspect_j_proj and others. Those that are not finite are
// left out.
std::vector<Metric> inspection_metrics(const std::vector<nn::LayerMeasures>& layers);

}  // namespace pursuit::apps
