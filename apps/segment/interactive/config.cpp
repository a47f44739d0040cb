#include "apps/segment/interactive/config.h"

#include <fmt/format.h>

#include "apps/command/apply.h"
#include "apps/command/checks.h"
#include "apps/command/unused_options.h"
#include "apps/run/fields.h"
#include "apps/run/run_folder.h"

namespace pursuit::segment::interactive {

using apps::check_range;

nn::InteractiveSegmenterConfig model_config(const Config& c) {
  return {.halvings = c.halvings,
          .dim = c.dim,
          .depth = c.depth,
          .key_dim = c.key_dim,
          .place_unit = c.place_unit,
          .prior = c.prior,
          .alpha = c.alpha,
          .answers = {.key_iterations = c.key_iterations,
                      .theta = c.theta,
                      .centre = c.centre,
                      .refresh_prior = c.refresh_prior,
                      .propagate = c.propagate,
                      .clamp = c.clamp}};
}

std::vector<apps::ModelSize> model_sizes(const Config& c) {
  return {{"dim", c.dim, "queries.weight", 1},
          {"key-dim", c.key_dim, "queries.weight", 0},
          {"depth", c.halvings + c.depth, "convolutions.", apps::ModelSize::blocks}};
}

void validate(const Config& c) {
  apps::check_fields(Config::app, c);
  apps::validate(Config::app, static_cast<const apps::TrainingFields&>(c));
  apps::check_word(Config::app, "format", c.format, data::ObjectFormats::names());
  check_range(Config::app, "validation", choice_name(c.validation), c.validation != data::Split::train,
              "val or test");
  const int64_t token = model_config(c).token();
  const std::string need = fmt::format("a multiple of {} pixels, the side of a token (--halvings)", token);
  for (const auto& [name, side] : {std::pair{"height", c.height},
                                   {"width", c.width},
                                   {"crop-height", c.crop_height},
                                   {"crop-width", c.crop_width}})
    check_range(Config::app, name, side, side % token == 0, need.c_str());
  // Attention compares all tokens with each other.
  constexpr int64_t most_tokens = 1 << 15;
  for (const auto& [height, width] : {std::pair{c.height, c.width}, {c.crop_height, c.crop_width}})
    if (const int64_t tokens = (height / token) * (width / token); tokens > most_tokens)
      fail(Config::app,
           fmt::format("{} x {} pixels are {} tokens, need at most {}: more --halvings or fewer pixels",
                       width, height, tokens, most_tokens));
  check_range(Config::app, "ratio-max", c.ratio_max, c.ratio_max >= c.ratio_min, "at least --ratio-min");
  check_range(Config::app, "refresh-prior", c.refresh_prior,
              !c.refresh_prior || c.prior == nn::UnitPrior::magnitude, "--prior magnitude");
  if (c.noise > 0 && !c.data.empty())
    fail(Config::app, "--noise is added to drawn scenes; leave it out with --data");
}

std::vector<std::pair<std::string, std::string>> without_effect(const Config& c) {
  apps::UnusedOptions unused;
  unused.add_if(true, "pictures are evaluated one by one", {"eval-batch-size"});
  unused.add_if(c.data.empty(), "it is of picture files, and the scenes are drawn",
                {"least-area", "most-objects", "jpeg-decoder", "cache-mib", "skip-bad"});
  return unused.list;
}

apps::ValidationScore validation_score(const Config& c) {
  if (c.validation != data::Split::val)
    fail(Config::app, "a setting is chosen on validation pictures; give --validation val");
  return {"mean_iou_5"};
}

std::string describe_attention(const Config& c) {
  std::string text = c.propagate ? "clicks propagated" : "clicks not propagated";
  text += c.clamp ? ", clamped" : ", not clamped";
  text += fmt::format(", {} prior", choice_name(c.prior));
  text += c.key_iterations > 0 ? fmt::format(", keys adapted {} x (theta {:g})", c.key_iterations, c.theta)
                               : std::string(", keys as projected");
  return text;
}

std::string describe_data(const Config& c, data::Split split) {
  std::string text = (c.data.empty() ? "materials" : apps::last_name(c.data)) + " " + choice_name(split);
  return c.noise > 0 ? text + fmt::format(" with noise {:g}", c.noise) : text;
}

std::unique_ptr<data::SegmentationDataset> open_data(const Config& c, data::Split split) {
  data::ObjectOptions o;
  o.format = c.format;
  o.limit = split == data::Split::train ? c.limit : c.test_limit;
  o.skip_bad = c.skip_bad;
  o.decoding.decoder = c.jpeg_decoder;
  o.cache_bytes = c.cache_mib << 20;
  o.least_area = c.least_area;
  o.most_a_picture = c.most_objects;
  o.noise = c.noise;
  return data::open_objects(c.data, split, o);
}

}  // namespace pursuit::segment::interactive

template void pursuit::apps::apply(const Recipe&, pursuit::segment::interactive::Config&);
