#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "apps/pictures/vision_fields.h"
#include "apps/run/json.h"
#include "apps/training/model_sizes.h"
#include "data/label_key.h"
#include "data/segmentation.h"
#include "nn/segmenter.h"

namespace pursuit::segment {

// The options of `segment train`. Recipes hold them too, and config.json in a run's folder, from which
// resume, eval and predict rebuild the model and the data pipeline.
struct Config : apps::VisionFields, apps::TrainingFields {
  static constexpr const char *app = "segment", *unit = "images";
  using Model = nn::Segmenter;

  int64_t height = 96, width = 128;
  nn::SegmenterDecoder decoder = nn::SegmenterDecoder::linear;
  int64_t decoder_depth = 2;
  double decoder_dropout = 0.1, decoder_attention_dropout = 0, decoder_activation_dropout = 0;
  bool iterate_decoder = true;
  std::string encoder;
  data::Split validation = data::Split::val;

  // evaluation: sliding windows, scales, flip
  int64_t stride = 0;
  std::vector<double> scales = {1};
  bool eval_flip = false;

  // augmentation
  int64_t short_side = 0, long_side = 0;
  double ratio_min = 0.5, ratio_max = 2, max_class_share = 0.75;
  bool photometric = true;

  // filled in when data and encoder are opened
  std::vector<std::string> classes;
  std::vector<data::Rgb> colours;
  std::vector<double> mean, std;

  Config() {
    patch = 8;
    dim = 96;
    depth = 4;
    mlp_ratio = 2;
  }
};

template <class C, class F> void for_each_field(C& c, const F& f) {
  for_each_vision_field(c, f);
  f("height", c.height, "Height of the model's input and of evaluation's windows in pixels",
    apps::Range{1, 4096});
  f("width", c.width, "Width of the model's input and of evaluation's windows in pixels",
    apps::Range{1, 4096});
  f("patch", c.patch, "Side of a patch in pixels", apps::Range{1, 4096});
  f("decoder", c.decoder, "Decoder");
  f("decoder-depth", c.decoder_depth, "mask: number of blocks", apps::Range{1, 1000});
  f("decoder-dropout", c.decoder_dropout, "mask: dropout rate of the decoder's residual branches",
    apps::below(0, 1));
  f("decoder-attention-dropout", c.decoder_attention_dropout,
    "mask: dropout rate of the decoder's attention probabilities", apps::below(0, 1));
  f("decoder-activation-dropout", c.decoder_activation_dropout,
    "mask: dropout rate of the hidden units of the decoder's MLPs", apps::below(0, 1));
  f("iterate-decoder", c.iterate_decoder,
    "Iterate in the decoder too, in the blocks of --layers, as published");
  f("encoder", c.encoder,
    "Start from the encoder of this run or checkpoint of `classify`: from the weights it is evaluated with, "
    "position embeddings resized; pictures are normalised as there");
  f("data", c.data, "Folder with the data set (left out: built-in drawn scenes)");
  static const std::string formats =
      data::SegmentationFormats::help(data::SegmentationFormats::Use::training);
  f("format", c.format, formats.c_str());
  f("validation", c.validation,
    "Split to evaluate during training; if the data has only one of val and test, that one");
  f("short-side", c.short_side,
    "Resize pictures to this shorter side: in evaluation, and in training before the random ratio (0: no "
    "resizing)",
    apps::Range{0, 16384});
  f("long-side", c.long_side,
    "With --short-side: upper limit of the longer side; the aspect ratio is kept (0: no limit)",
    apps::Range{0, 16384});
  f("stride", c.stride, "Evaluation: pixels between windows (0: windows side by side)", apps::Range{0, 4096});
  f("scales", c.scales, "Evaluation: average the probabilities over these scales of the pictures",
    apps::Range{0.1, 4});
  f("eval-flip", c.eval_flip, "Evaluation: average over the mirrored pictures too");
  f("ratio-min", c.ratio_min, "Training: smallest random scaling ratio", apps::above(0, 8));
  f("ratio-max", c.ratio_max, "Training: largest random scaling ratio", apps::above(0, 8));
  f("max-class-share", c.max_class_share,
    "Training: redraw a crop while one class covers more than this share (1: never)", apps::above(0, 1));
  f("photometric", c.photometric, "Distort brightness, contrast, saturation and hue");
  for_each_training_field(c, f);
  f("classes", c.classes, "");
  f("colours", c.colours, "");
  f("mean", c.mean, "", apps::Range{-1e6, 1e6});
  f("std", c.std, "", apps::above(0, 1e6));
}

nn::SegmenterConfig model_config(const Config& config);
std::vector<apps::ModelSize> model_sizes(const Config& config);
// Checks options against each other. Throws Error that names the option.
void validate(const Config& config);
// The options that change nothing beside these, and why; see note_options.
std::vector<std::pair<std::string, std::string>> without_effect(const Config& config);
// Throws Error if training evaluates test pictures.
apps::ValidationScore validation_score(const Config& config);

// For example "RPC-Attention (6 iterations, block 0 of encoder and decoder)".
std::string describe_attention(const Config& config);

}  // namespace pursuit::segment
