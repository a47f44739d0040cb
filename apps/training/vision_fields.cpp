#include "apps/training/vision_fields.h"

#include "apps/common/checks.h"

namespace pursuit::apps {

nn::VitConfig vit_config(const VisionFields& f) {
  nn::VitConfig v;
  v.patch = f.patch;
  v.dim = f.dim;
  v.depth = f.depth;
  v.heads = f.heads;
  v.mlp_ratio = f.mlp_ratio;
  v.dropout = f.dropout;
  v.drop_path = f.drop_path;
  v.iterated_layer = f.layer;
  v.attention = attention_config(f);
  return v;
}

nn::Init init(const VisionFields& f) { return f.init == "timm" ? nn::Init::timm : nn::Init::pytorch; }

void validate(const char* app, const VisionFields& f) {
  validate(app, static_cast<const AttentionFields&>(f));
  check_word(app, "init", f.init, {"timm", "pytorch"});
  check_range(app, "dim", f.dim, f.dim > 0 && f.heads > 0 && f.dim % f.heads == 0, "a multiple of --heads");
  check_range(app, "depth", f.depth, f.depth > 0, "at least 1");
  check_range(app, "layer", f.layer, f.layer >= -1 && f.layer < f.depth, "-1 or the number of a block");
  check_range(app, "mlp-ratio", f.mlp_ratio, f.mlp_ratio > 0, "more than 0");
  check_range(app, "patch", f.patch, f.patch >= 0, "0 or more");
  check_range(app, "workers", f.workers, f.workers >= 0, "0 or more");
  for (const auto& [name, value] :
       {std::pair{"limit", f.limit}, {"test-limit", f.test_limit}, {"cache-mib", f.cache_mib}})
    check_range(app, name, value, value >= 0, "0 or more");
  for (const auto& [name, value] : {std::pair{"dropout", f.dropout}, {"drop-path", f.drop_path}})
    check_range(app, name, value, value >= 0 && value < 1, "0 up to, not including, 1");
  check_range(app, "flip", f.flip, f.flip >= 0 && f.flip <= 1, "0 to 1");
}

}  // namespace pursuit::apps
