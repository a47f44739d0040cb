#include "apps/segment/config.h"

#include <fmt/format.h>

#include "apps/common/checks.h"
#include "apps/common/fields.h"
#include "engine/error.h"

namespace pursuit::segment {

namespace {

constexpr const char* app = "segment";
using apps::check_range, apps::check_word;

}  // namespace

nn::SegmenterConfig model_config(const Config& c) {
  nn::SegmenterConfig s;
  nn::VitConfig& v = s.encoder;
  v.image = c.height;
  v.width = c.width;
  v.patch = c.patch;
  v.dim = c.dim;
  v.depth = c.depth;
  v.heads = c.heads;
  v.classes = int64_t(c.classes.size());
  v.mlp_ratio = c.mlp_ratio;
  v.dropout = c.dropout;
  v.drop_path = c.drop_path;
  v.iterated_layer = c.layer;
  v.attention = apps::attention_config(c);
  s.decoder = c.decoder == "linear" ? nn::SegmenterDecoder::linear : nn::SegmenterDecoder::mask;
  s.decoder_depth = c.decoder_depth;
  s.decoder_dropout = c.decoder_dropout;
  s.decoder_iterates = c.iterate_decoder;
  return s;
}

void validate(const Config& c) {
  apps::validate(app, static_cast<const apps::AttentionFields&>(c));
  apps::validate(app, static_cast<const apps::TrainingFields&>(c));
  check_word(app, "decoder", c.decoder, {"linear", "mask"});
  check_word(app, "init", c.init, {"timm", "pytorch"});
  check_word(app, "validation", c.validation, {"val", "test"});
  check_range(app, "patch", c.patch, c.patch > 0, "at least 1");
  for (const auto& [name, side] : {std::pair{"height", c.height}, {"width", c.width}})
    check_range(app, name, side, side > 0 && side <= 4096 && side % c.patch == 0,
                "a multiple of --patch up to 4096");
  check_range(app, "dim", c.dim, c.dim > 0 && c.heads > 0 && c.dim % c.heads == 0, "a multiple of --heads");
  check_range(app, "depth", c.depth, c.depth > 0, "at least 1");
  check_range(app, "decoder-depth", c.decoder_depth, c.decoder_depth > 0, "at least 1");
  check_range(app, "layer", c.layer, c.layer >= -1 && c.layer < c.depth, "-1 or the number of a block");
  check_range(app, "mlp-ratio", c.mlp_ratio, c.mlp_ratio > 0, "more than 0");
  check_range(app, "workers", c.workers, c.workers >= 0, "0 or more");
  check_range(app, "cache-mib", c.cache_mib, c.cache_mib >= 0, "0 or more");
  for (const auto& [name, value] : {std::pair{"limit", c.limit}, {"test-limit", c.test_limit}})
    check_range(app, name, value, value >= 0, "0 or more");
  for (const auto& [name, side] : {std::pair{"short-side", c.short_side}, {"long-side", c.long_side}})
    check_range(app, name, side, side >= 0 && side <= 16384, "0 to 16384");
  check_range(app, "ratio-min", c.ratio_min, c.ratio_min > 0, "more than 0");
  check_range(app, "ratio-max", c.ratio_max, c.ratio_max >= c.ratio_min && c.ratio_max <= 8,
              "at least --ratio-min and at most 8");
  for (const auto& [name, value] :
       {std::pair{"dropout", c.dropout}, {"drop-path", c.drop_path}, {"decoder-dropout", c.decoder_dropout}})
    check_range(app, name, value, value >= 0 && value < 1, "0 up to, not including, 1");
  check_range(app, "flip", c.flip, c.flip >= 0 && c.flip <= 1, "0 to 1");
  check_range(app, "max-class-share", c.max_class_share, c.max_class_share > 0 && c.max_class_share <= 1,
              "above 0, up to 1");
  if (!c.classes.empty() && (c.classes.size() > 255 || c.colours.size() != c.classes.size() ||
                             c.mean.size() != 3 || c.std.size() != 3))
    fail(app, fmt::format(
                  "the config has {} classes with {} colours and {} channels' statistics; need up to 255, as "
                  "many, and 3",
                  c.classes.size(), c.colours.size(), c.mean.size()));
}

std::string describe_attention(const Config& c) {
  std::string where = c.layer < 0 ? "every block" : fmt::format("block {}", c.layer);
  if (c.decoder == "mask" && c.iterate_decoder) where += ", and the decoder's block 0";
  return apps::describe_attention(c, where);
}

}  // namespace pursuit::segment
