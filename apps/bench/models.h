#pragma once
#include <string>

#include "apps/bench/workload.h"
#include "nn/segmenter.h"
#include "nn/transformer_lm.h"
#include "nn/vit.h"

namespace pursuit::bench {

// Workloads that train on random data with AdamW, language models with Adam and clipping as published.
Workload training(const std::string& name, const std::string& what, int64_t batch,
                  const nn::VitConfig& config);
Workload segmentation(const std::string& name, const std::string& what, int64_t batch,
                      const nn::SegmenterConfig& config);
Workload language(const std::string& name, const std::string& what, int64_t batch,
                  const nn::LmConfig& config);

nn::VitConfig with_attention(nn::VitConfig config, const std::string& kind,
                             const nn::KindOptions& options = {}, const std::string& layers = "auto");

}  // namespace pursuit::bench
