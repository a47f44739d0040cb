#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "apps/pictures/vision_fields.h"
#include "apps/training/model_sizes.h"
#include "data/interactive/objects.h"
#include "nn/interactive_segmenter.h"

namespace pursuit::segment::interactive {

// The options of `segment interactive train`.
struct Config : apps::PictureFields, apps::TrainingFields {
  static constexpr const char *app = "segment interactive", *unit = "objects";
  static constexpr const char* run_words = "{plain,adapted}";
  static constexpr std::array fixed = {"inspect-every"};
  using Model = nn::InteractiveSegmenter;

  int64_t height = 32, width = 32, crop_height = 0, crop_width = 0;
  int64_t halvings = 1, dim = 48, depth = 2, key_dim = 32, place_unit = 0;
  nn::UnitPrior prior = nn::UnitPrior::uniform;
  double alpha = 0;
  int key_iterations = 0;
  double theta = 1;
  nn::PriorCentre centre = nn::PriorCentre::fixed;
  bool refresh_prior = false, propagate = true, clamp = true;

  // training
  int64_t train_clicks = 8;
  double focal_gamma = 2, ratio_min = 1, ratio_max = 1;
  bool photometric = false;

  // data
  data::Split validation = data::Split::val;
  int64_t least_area = 400, most_objects = 3;
  double noise = 0;

  Config() {
    init = nn::Init::pytorch;
    optimizer = nn::OptimizerConfig::Kind::adamw;
    batch_size = 16;
    lr = 2e-3;
    weight_decay = 0;
  }
};

template <class C, class F> void for_each_field(C& c, const F& f) {
  f("height", c.height, "Height of the model's input in pixels; pictures are scaled to fit",
    apps::Range{2, 4096});
  f("width", c.width, "Width of the model's input in pixels", apps::Range{2, 4096});
  f("crop-height", c.crop_height, "Training: height of the part that is shown (0: the input's)",
    apps::Range{0, 4096});
  f("crop-width", c.crop_width, "Training: width of the part that is shown (0: the input's)",
    apps::Range{0, 4096});
  f("halvings", c.halvings, "Convolutions of stride 2; a token is 2^halvings pixels wide", apps::Range{1, 6});
  f("dim", c.dim, "Channels of the convolutions", apps::Range{1, 4096});
  f("depth", c.depth, "Residual blocks behind them, of dilation 1, 2, 4, 1, ...", apps::Range{0, 1000});
  f("key-dim", c.key_dim, "Width of queries and keys", apps::Range{1, 4096});
  f("place-unit", c.place_unit,
    "Tokens are alike if they are close, too: places in units of so many pixels (0: only by their looks)",
    apps::Range{0, 65536});
  f("prior", c.prior, "Prior of the units");
  f("alpha", c.alpha, "Precision of queries around keys (0: 1 / sqrt(key-dim))", apps::Range{0, 1e6});
  f("key-iterations", c.key_iterations, "EM iterations that adapt the keys to the queries",
    apps::Range{0, 1000});
  f("theta", c.theta, "Precision of the adapted keys' prior", apps::Range{0, 1e6});
  f("prior-centre", c.centre, "Centre of the adapted keys' prior");
  f("refresh-prior", c.refresh_prior,
    "With --prior magnitude: take it anew from the adapted keys, as in the published layer");
  f("propagate", c.propagate, "Clicks move the values of units alike");
  f("clamp", c.clamp, "The output at a clicked token is the click's");
  f("train-clicks", c.train_clicks, "Training: 1 to this many clicks of the robot user a step",
    apps::Range{1, 100});
  f("focal-gamma", c.focal_gamma, "Exponent of the normalised focal loss (0: cross-entropy)",
    apps::Range{0, 10});
  f("data", c.data, "Folder with the data set (left out: drawn scenes of materials)");
  static const std::string formats = data::ObjectFormats::help(data::ObjectFormats::Use::training);
  f("format", c.format, formats.c_str());
  f("validation", c.validation, "Split to evaluate during training");
  f("least-area", c.least_area, "Fewest pixels of an object", apps::Range{1, 1 << 30});
  f("most-objects", c.most_objects, "Components of a picture that count as objects, the largest first",
    apps::Range{1, 1 << 20});
  f("noise", c.noise, "Standard deviation of noise that is added to drawn scenes, of the range of a pixel",
    apps::Range{0, 1});
  f("ratio-min", c.ratio_min, "Training: smallest random scaling ratio", apps::above(0, 8));
  f("ratio-max", c.ratio_max, "Training: largest random scaling ratio", apps::above(0, 8));
  f("photometric", c.photometric, "Training: distort brightness, contrast, saturation and hue");
  for_each_picture_field(c, f);
  for_each_training_field(c, f);
}

nn::InteractiveSegmenterConfig model_config(const Config& config);
std::vector<apps::ModelSize> model_sizes(const Config& config);
// Checks options against each other. Throws Error that names the option.
void validate(const Config& config);
// The options that change nothing beside these, and why; see note_options.
std::vector<std::pair<std::string, std::string>> without_effect(const Config& config);
// Throws Error if training evaluates test pictures.
apps::ValidationScore validation_score(const Config& config);

// How clicks are answered: "clicks propagated, clamped, uniform prior, keys adapted 3 x (theta 0.1)".
std::string describe_attention(const Config& config);
std::string describe_data(const Config& config, data::Split split);  // for example "camvid test"

// Opens a split of the config's data.
std::unique_ptr<data::SegmentationDataset> open_data(const Config& config, data::Split split);

inline std::string run_word(const Config& config) { return config.key_iterations > 0 ? "adapted" : "plain"; }

}  // namespace pursuit::segment::interactive
