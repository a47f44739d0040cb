#pragma once
#include <string>
#include <vector>

#include "apps/training/checkpoint.h"
#include "engine/base/error.h"
#include "engine/core/shapes_only.h"
#include "nn/vit.h"

// A config read from a file is not trusted: before a model is built from it, the fields that set the model's
// sizes are compared with the tensors in the checkpoint.
namespace pursuit::apps {

// A size that follows from a field of the config and that a tensor must have.
struct ModelSize {
  static constexpr int blocks = -1;

  std::string field;   // "dim"
  int64_t value = 0;   // the size
  std::string tensor;  // "patch_embed.proj.weight"; with `blocks` a prefix: "blocks."
  int dimension = 0;   // of the tensor; or `blocks`: the number of blocks under the prefix
};

// The sizes of a vision transformer whose tensors' names begin with `prefix`.
std::vector<ModelSize> vit_sizes(const nn::VitConfig& config, const std::string& prefix = "");

// Throws Error that names the field, the size it needs and the tensor's size.
void check_sizes(const std::vector<ModelSize>& sizes, const TensorFile& file);

// Checks that a Model of the config has exactly the checkpoint's tensors, without allocating the model. The
// app supplies validate(config), model_config(config) and model_sizes(config). Throws Error that names the
// field and `source`, the config's file.
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
