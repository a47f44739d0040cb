#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/training/fields.h"
#include "data/label_key.h"
#include "nn/segmenter.h"

namespace pursuit::segment {

// Everything that makes a run what it is: the options of `segment train`, also as the files in recipes/ and
// as config.json in a run's folder, where it is all that resume, eval and predict need to know.
struct Config : apps::AttentionFields, apps::TrainingFields {
  // model
  int64_t height = 96, width = 128, patch = 8;
  int64_t dim = 96, depth = 4, heads = 3;
  double mlp_ratio = 2, dropout = 0, drop_path = 0;
  int layer = 0;  // that iterates, -1: every one
  std::string decoder = "linear";
  int64_t decoder_depth = 2;
  double decoder_dropout = 0.1;
  bool iterate_decoder = true;
  std::string init = "timm", encoder;

  // data
  std::string data;  // empty: the built-in scenes
  std::string format = "auto", validation = "val";
  int64_t limit = 0, test_limit = 0;
  bool skip_bad = false;
  int64_t cache_mib = 512;
  int workers = 1;

  // augmentation
  int64_t short_side = 0, long_side = 0;
  double ratio_min = 0.5, ratio_max = 2, max_class_share = 0.75, flip = 0.5;
  bool photometric = true;

  // filled in when the data is opened
  std::vector<std::string> classes;
  std::vector<data::Rgb> colours;
  std::vector<double> mean, std;
};

template <class C, class F>
void for_each_field(C& c, const F& f) {
  for_each_attention_field(c, f);
  f("layer", c.layer,
    "rpc, svt: the encoder's block that iterates, the others being symmetric (-1: every block)");
  f("height", c.height, "Height of the model's input and of evaluation's windows in pixels");
  f("width", c.width, "Width of the model's input and of evaluation's windows in pixels");
  f("patch", c.patch, "Side of a patch in pixels");
  f("dim", c.dim, "Width of the model");
  f("depth", c.depth, "Number of the encoder's blocks");
  f("heads", c.heads, "Attention heads");
  f("mlp-ratio", c.mlp_ratio, "Hidden width of the MLP over the model's width");
  f("dropout", c.dropout, "Encoder: dropout rate after the position embedding");
  f("drop-path", c.drop_path, "Encoder: drop path rate of the last block (grows linearly from 0)");
  f("decoder", c.decoder, "linear, or mask (Segmenter's mask transformer)");
  f("decoder-depth", c.decoder_depth, "mask: number of blocks");
  f("decoder-dropout", c.decoder_dropout, "mask: dropout rate");
  f("iterate-decoder", c.iterate_decoder, "rpc, svt: the decoder's first block iterates too, as published");
  f("init", c.init, "Initial weights: timm (truncated normal 0.02) or pytorch (uniform by fan-in)");
  f("encoder", c.encoder,
    "Start from the encoder of this run or checkpoint of `classify`, its position embeddings resized");
  f("data", c.data, "Folder with the data set (left out: built-in drawn scenes)");
  f("format", c.format, "Layout of the data: auto, ade20k, camvid, coco_stuff, folder, scenes");
  f("validation", c.validation, "Split that is evaluated while training: val or test");
  f("limit", c.limit, "Train on this many pictures, evenly spaced (0: all)");
  f("test-limit", c.test_limit, "Evaluate on this many pictures, evenly spaced (0: all)");
  f("skip-bad", c.skip_bad, "Replace damaged pictures by the next good one and count them");
  f("cache-mib", c.cache_mib, "Memory for decoded pictures, MiB");
  f("workers", c.workers, "Threads that prepare batches (0: the training thread itself)");
  f("short-side", c.short_side,
    "Pictures are scaled to this shorter side in evaluation, and before the drawn ratio in training (0: as "
    "they are)");
  f("long-side", c.long_side, "Training: nor longer than this, before the drawn ratio (0: no limit)");
  f("ratio-min", c.ratio_min, "Training: smallest drawn ratio of the scaling");
  f("ratio-max", c.ratio_max, "Training: largest drawn ratio of the scaling");
  f("max-class-share", c.max_class_share,
    "Training: a crop is drawn again while one class makes up this share (1: never)");
  f("flip", c.flip, "Probability of a horizontal flip");
  f("photometric", c.photometric, "Distort brightness, contrast, saturation and hue");
  for_each_training_field(c, f);
  f("classes", c.classes, "");
  f("colours", c.colours, "");
  f("mean", c.mean, "");
  f("std", c.std, "");
}

nn::SegmenterConfig model_config(const Config& config);
// Checks values that no option checks by itself; throws Error that names the option.
void validate(const Config& config);

// "RPC-Attention (6 iterations, block 0 of encoder and decoder)"
std::string describe_attention(const Config& config);

}  // namespace pursuit::segment
