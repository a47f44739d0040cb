#pragma once
#include <string>
#include <vector>

#include "apps/training/checkpoint.h"
#include "engine/base/error.h"
#include "engine/core/shapes_only.h"
#include "nn/vit.h"

// A config that was read from a file is not to be trusted: before a model is built from it, the fields that
// size the model are held against the tensors that are there.
namespace pursuit::apps {

// What a field of the config makes of a tensor.
struct ModelSize {
  static constexpr int blocks = -1;

  std::string field;   // "dim"
  int64_t value = 0;   // the size that follows from it
  std::string tensor;  // "patch_embed.proj.weight"
  int dimension =
      0;  // of the tensor that has this size; or `blocks`: the tensors' names go on with so many numbers
};

// Those of a vision transformer whose tensors' names begin with `prefix`.
std::vector<ModelSize> vit_sizes(const nn::VitConfig& config, const std::string& prefix = "");

// Throws Error that names the field, what it asks for and what is there.
void check_sizes(const std::vector<ModelSize>& sizes, const TensorFile& file);

// Throws Error that names `source`, the file that the config is from, and the field unless a Model of the
// config has exactly these tensors. Takes no memory for the model. The app supplies validate(config),
// model_config(config) and model_sizes(config).
template <class Model, class Config>
void check_config(const Config& config, const std::string& source, const Checkpoint& checkpoint) {
  try {
    validate(config);
    check_sizes(model_sizes(config), checkpoint.file);
    const ShapesOnly only;
    check_parameters(Model(model_config(config)), checkpoint.parameters(), checkpoint.path);
  } catch (const Error& e) {
    fail("config", source + ": " + e.what());
  }
}

}  // namespace pursuit::apps
