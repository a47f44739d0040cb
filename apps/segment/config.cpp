#include "apps/segment/config.h"

#include <fmt/format.h>

#include <algorithm>

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
  s.encoder = apps::vit_config(c);
  s.encoder.image = c.height;
  s.encoder.width = c.width;
  s.encoder.classes = int64_t(c.classes.size());
  s.decoder = c.decoder == "linear" ? nn::SegmenterDecoder::linear : nn::SegmenterDecoder::mask;
  s.decoder_depth = c.decoder_depth;
  s.decoder_dropout = c.decoder_dropout;
  s.decoder_attention_dropout = c.decoder_attention_dropout;
  s.decoder_activation_dropout = c.decoder_activation_dropout;
  s.decoder_iterates = c.iterate_decoder;
  return s;
}

std::vector<apps::ModelSize> model_sizes(const Config& c) {
  const bool linear = c.decoder == "linear";
  std::vector<apps::ModelSize> sizes = apps::vit_sizes(model_config(c).encoder, "encoder.");
  sizes.push_back({"classes", int64_t(c.classes.size()), linear ? "decoder.head.weight" : "decoder.cls_emb",
                   linear ? 0 : 1});
  if (!linear)
    sizes.push_back({"decoder-depth", c.decoder_depth, "decoder.blocks.", apps::ModelSize::blocks});
  return sizes;
}

void validate(const Config& c) {
  apps::validate(app, static_cast<const apps::VisionFields&>(c));
  apps::validate(app, static_cast<const apps::TrainingFields&>(c));
  check_word(app, "decoder", c.decoder, {"linear", "mask"});
  check_word(app, "validation", c.validation, {"val", "test"});
  check_range(app, "patch", c.patch, c.patch > 0, "at least 1");
  for (const auto& [name, side] : {std::pair{"height", c.height}, {"width", c.width}})
    check_range(app, name, side, side > 0 && side <= 4096 && side % c.patch == 0,
                "a multiple of --patch up to 4096");
  check_range(app, "decoder-depth", c.decoder_depth, c.decoder_depth >= 1 && c.decoder_depth <= 1000,
              "1 to 1000");
  for (const auto& [name, side] : {std::pair{"short-side", c.short_side}, {"long-side", c.long_side}})
    check_range(app, name, side, side >= 0 && side <= 16384, "0 to 16384");
  check_range(app, "stride", c.stride, c.stride >= 0 && c.stride <= std::min(c.height, c.width),
              "0 (windows side by side) to the shorter side of the windows");
  if (c.scales.empty() ||
      !std::all_of(c.scales.begin(), c.scales.end(), [](double s) { return s >= 0.1 && s <= 4; }))
    fail(app, "--scales: need numbers from 0.1 to 4");
  check_range(app, "ratio-min", c.ratio_min, c.ratio_min > 0, "more than 0");
  check_range(app, "ratio-max", c.ratio_max, c.ratio_max >= c.ratio_min && c.ratio_max <= 8,
              "at least --ratio-min and at most 8");
  for (const auto& [name, rate] : {std::pair{"decoder-dropout", c.decoder_dropout},
                                   {"decoder-attention-dropout", c.decoder_attention_dropout},
                                   {"decoder-activation-dropout", c.decoder_activation_dropout}})
    check_range(app, name, rate, rate >= 0 && rate < 1, "0 up to, not including, 1");
  check_range(app, "max-class-share", c.max_class_share, c.max_class_share > 0 && c.max_class_share <= 1,
              "above 0, up to 1");
  if (c.classes.empty()) return;  // what follows from the data is not there yet
  if (c.classes.size() > 255 || c.colours.size() != c.classes.size())
    fail(app, fmt::format("got {} classes with {} colours, need up to 255 and as many", c.classes.size(),
                          c.colours.size()));
  apps::check_statistics(app, c.mean, c.std, 3);
}

std::string describe_attention(const Config& c) {
  std::string where = c.layer < 0 ? "every block" : fmt::format("block {}", c.layer);
  if (c.decoder == "mask" && c.iterate_decoder) where += ", and the decoder's block 0";
  return apps::describe_attention(c, where);
}

}  // namespace pursuit::segment
