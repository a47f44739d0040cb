#include "apps/classify/config.h"

#include "apps/common/checks.h"
#include "apps/common/fields.h"

namespace pursuit::classify {

namespace {

constexpr const char* app = "classify";
using apps::check_range, apps::check_word;

}  // namespace

nn::VitConfig model_config(const Config& c) {
  nn::VitConfig v;
  v.image = c.image_size;
  v.patch = c.patch;
  v.channels = c.channels;
  v.dim = c.dim;
  v.depth = c.depth;
  v.heads = c.heads;
  v.classes = int64_t(c.classes.size());
  v.mlp_ratio = c.mlp_ratio;
  v.dropout = c.dropout;
  v.drop_path = c.drop_path;
  v.iterated_layer = c.layer;
  v.attention = apps::attention_config(c);
  return v;
}

void validate(const Config& c) {
  apps::validate(app, static_cast<const apps::AttentionFields&>(c));
  apps::validate(app, static_cast<const apps::TrainingFields&>(c));
  check_word(app, "init", c.init, {"timm", "pytorch"});
  check_word(app, "crop", c.crop, {"auto", "none", "padded", "resized"});
  check_range(app, "dim", c.dim, c.dim > 0 && c.heads > 0 && c.dim % c.heads == 0, "a multiple of --heads");
  check_range(app, "depth", c.depth, c.depth > 0, "at least 1");
  check_range(app, "layer", c.layer, c.layer >= -1 && c.layer < c.depth, "-1 or the number of a block");
  check_range(app, "mlp-ratio", c.mlp_ratio, c.mlp_ratio > 0, "more than 0");
  check_range(app, "image-size", c.image_size, c.image_size >= 0 && c.image_size <= 4096, "0 to 4096");
  check_range(app, "patch", c.patch, c.patch >= 0, "0 or more");
  check_range(app, "workers", c.workers, c.workers >= 0, "0 or more");
  check_range(app, "repeats", c.repeats, c.repeats >= 1, "at least 1");
  for (const auto& [name, value] :
       {std::pair{"dropout", c.dropout}, {"drop-path", c.drop_path}, {"label-smoothing", c.label_smoothing}})
    check_range(app, name, value, value >= 0 && value < 1, "0 up to, not including, 1");
  for (const auto& [name, value] : {std::pair{"flip", c.flip}, {"random-erasing", c.random_erasing}})
    check_range(app, name, value, value >= 0 && value <= 1, "0 to 1");
  for (const auto& [name, value] :
       {std::pair{"mixup", c.mixup}, {"cutmix", c.cutmix}, {"colour-jitter", c.colour_jitter}})
    check_range(app, name, value, value >= 0, "0 or more");
}

}  // namespace pursuit::classify
