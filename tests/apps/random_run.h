#pragma once
#include <filesystem>
#include <string>

#include "apps/classify/pipeline.h"
#include "apps/run/files.h"
#include "apps/training/checkpoint.h"
#include "engine/ops.h"

namespace pursuit::classify {

// Writes a run's folder with random weights, none of them zero.
inline void make_run(const std::string& folder, const Config& config) {
  Model model(model_config(config));
  uint64_t stream = 0;
  for (const nn::NamedTensor& p : model.parameters())
    copy_values(*p.tensor, normal(p.tensor->shape(), 0, 0.4, 7, stream++));
  nn::FlatParameters flat(model.parameters(), nn::decays_by_timm);
  nn::Optimizer optimizer(flat, optimizer_config(config));
  std::filesystem::create_directories(folder);
  apps::write_file_atomically(folder + "/config.json", apps::fields_to_json(config).dump(2));
  apps::save_checkpoint(apps::checkpoint_path(folder), "classify", apps::fields_to_json(config), {}, model,
                        optimizer, nullptr);
}

}  // namespace pursuit::classify
