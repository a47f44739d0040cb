#pragma once
#include <string>

#include "apps/classify/config.h"
#include "engine/files/safetensors.h"

namespace pursuit::classify {

// Sets model, attention and sizes in the config to what names and shapes of the weights tell; fields that
// they do not tell stay. Returns the number of classes. Throws Error that names `file` if no model fits, or
// not the config's if that was given.
int64_t infer_model(Config& config, const TensorFile& weights, const std::string& file, bool model_given);

}  // namespace pursuit::classify
