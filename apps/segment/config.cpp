#include "apps/segment/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/command/apply.h"
#include "apps/command/checks.h"
#include "apps/command/unused_options.h"
#include "apps/run/fields.h"
#include "engine/base/error.h"

namespace pursuit::segment {

using apps::check_range, apps::check_word;

nn::SegmenterConfig model_config(const Config& c) {
  nn::SegmenterConfig s;
  s.encoder = apps::vit_config(c);
  s.encoder.image = c.height;
  s.encoder.width = c.width;
  s.encoder.classes = int64_t(c.classes.size());
  s.decoder = c.decoder;
  s.decoder_depth = c.decoder_depth;
  s.decoder_dropout = c.decoder_dropout;
  s.decoder_attention_dropout = c.decoder_attention_dropout;
  s.decoder_activation_dropout = c.decoder_activation_dropout;
  s.decoder_iterates = c.iterate_decoder;
  return s;
}

std::vector<apps::ModelSize> model_sizes(const Config& c) {
  const bool linear = c.decoder == nn::SegmenterDecoder::linear;
  std::vector<apps::ModelSize> sizes = apps::vit_sizes(model_config(c).encoder, "encoder.");
  sizes.push_back({"classes", int64_t(c.classes.size()), linear ? "decoder.head.weight" : "decoder.cls_emb",
                   linear ? 0 : 1});
  if (!linear)
    sizes.push_back({"decoder-depth", c.decoder_depth, "decoder.blocks.", apps::ModelSize::blocks});
  return sizes;
}

void validate(const Config& c) {
  apps::check_fields(Config::app, c);
  apps::validate(Config::app, static_cast<const apps::VisionFields&>(c));
  apps::validate(Config::app, static_cast<const apps::TrainingFields&>(c));
  check_word(Config::app, "format", c.format, data::SegmentationFormats::names());
  check_range(Config::app, "validation", choice_name(c.validation), c.validation != data::Split::train,
              "val or test");
  for (const auto& [name, side] : {std::pair{"height", c.height}, {"width", c.width}})
    check_range(Config::app, name, side, side % c.patch == 0, "a multiple of --patch");
  check_range(Config::app, "stride", c.stride, c.stride <= std::min(c.height, c.width),
              "0 (windows side by side) to the shorter side of the windows");
  if (c.scales.empty()) fail(Config::app, "--scales: need at least one number");
  check_range(Config::app, "ratio-max", c.ratio_max, c.ratio_max >= c.ratio_min, "at least --ratio-min");
  if (c.classes.empty()) return;  // the fields that depend on the data are not filled in yet
  if (c.classes.size() > 255 || c.colours.size() != c.classes.size())
    fail(Config::app, fmt::format("got {} classes with {} colours, need up to 255 and as many",
                                  c.classes.size(), c.colours.size()));
  apps::check_statistics(Config::app, c.mean, c.std, 3);
}

std::vector<std::pair<std::string, std::string>> without_effect(const Config& c) {
  apps::UnusedOptions unused;
  unused.add_if(c.short_side == 0 && c.long_side > 0,
                "it limits what --short-side makes larger, and that is 0", {"long-side"});
  unused.add_if(c.decoder == nn::SegmenterDecoder::linear, "only --decoder mask has it",
                {"decoder-depth", "decoder-dropout", "decoder-attention-dropout",
                 "decoder-activation-dropout", "iterate-decoder"});
  unused.add_if(c.data.empty(), "the built-in scenes are no picture files",
                {"jpeg-decoder", "cache-mib", "skip-bad"});
  return unused.list;
}

apps::ValidationScore validation_score(const Config& c) {
  if (c.validation != data::Split::val)
    fail(Config::app,
         "a setting is chosen on validation pictures, but training evaluates those of the test split; "
         "give --validation val and data that has it");
  return {"mean_iou"};
}

std::string describe_attention(const Config& c) {
  const std::vector<std::string> kinds = nn::attention_kinds();
  const bool known =
      std::find(kinds.begin(), kinds.end(), c.attention) != kinds.end() && nn::are_layers(c.layers, c.depth);
  constexpr int64_t most_blocks = 1000;  // the largest --decoder-depth
  std::string blocks;                    // decoder blocks that iterate
  if (known && c.decoder == nn::SegmenterDecoder::mask && c.iterate_decoder)
    for (int64_t i = 0; i < std::min(c.decoder_depth, most_blocks); ++i)
      if (nn::runs_kind(apps::attention_config(c), i))
        blocks += fmt::format("{} {}", blocks.empty() ? "" : ",", i);
  return apps::describe_attention(c, c.depth, blocks.empty() ? "" : ", and of the decoder" + blocks);
}

}  // namespace pursuit::segment

template void pursuit::apps::apply(const Recipe&, pursuit::segment::Config&);
