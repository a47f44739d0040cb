#pragma once
#include "apps/training/fields.h"
#include "data/image.h"
#include "nn/init.h"
#include "nn/vit.h"

namespace pursuit::apps {

// The fields of the Configs of all apps on pictures.
struct PictureFields {
  nn::Init init = nn::Init::timm;

  std::string data;  // empty: built-in data
  std::string format = "auto";
  int64_t limit = 0, test_limit = 0;
  bool skip_bad = false;
  int64_t cache_mib = 512;
  data::Decoder jpeg_decoder = data::Decoder::stb;
  int workers = 1;
  double flip = 0.5;
};

// Of `data` and `format` the app says what they may be.
template <class C, class F> void for_each_picture_field(C& c, const F& f) {
  f("init", c.init, "Initial weights");
  f("limit", c.limit, "Train on this many pictures, evenly spaced (the first of drawn scenes; 0: all)",
    any_count);
  f("test-limit", c.test_limit,
    "Evaluate on this many pictures, evenly spaced (the first of drawn scenes; 0: all)", any_count);
  f("skip-bad", c.skip_bad, "Replace damaged pictures by the next good one and count them");
  f("cache-mib", c.cache_mib, "Memory for decoded pictures of each split, MiB", Range{0, 1 << 30});
  f("jpeg-decoder", c.jpeg_decoder, "What decodes JPEGs");
  f("workers", c.workers, "Threads that prepare batches (0: the training thread itself)", any_threads);
  f("flip", c.flip, "Probability of a horizontal flip", Range{0, 1});
}

// The fields of apps with a vision transformer.
struct VisionFields : AttentionFields, PictureFields {
  int64_t patch = 0, dim = 192, depth = 12, heads = 3;
  double mlp_ratio = 4, ln_eps = 1e-6, dropout = 0, drop_path = 0;
};

template <class C, class F> void for_each_vision_field(C& c, const F& f) {
  for_each_attention_field(c, f);
  f("dim", c.dim, "Width of the model", Range{1, 65536});
  f("depth", c.depth, "Number of blocks", Range{1, 1000});
  f("heads", c.heads, "Attention heads", Range{1, 65536});
  f("mlp-ratio", c.mlp_ratio, "Hidden width of the MLP over the model's width", above(0, 64));
  f("ln-eps", c.ln_eps, "Epsilon of LayerNorm (timm: 1e-6; PyTorch and Segmenter: 1e-5)", above(0, 1));
  f("dropout", c.dropout, "Dropout rate after the position embedding", below(0, 1));
  f("drop-path", c.drop_path,
    "Drop path rate of the last block, growing linearly from 0 (FAN: of every block)", below(0, 1));
  for_each_picture_field(c, f);
}

// The model's config without image size, channels and classes.
nn::VitConfig vit_config(const VisionFields& fields);

// Checks options against each other, those of attention included. Throws Error that starts with `app` and
// names the option.
void validate(const char* app, const VisionFields& fields);

// Throws Error unless mean and std have one finite value per channel and std is positive.
void check_statistics(const char* app, const std::vector<double>& mean, const std::vector<double>& std,
                      int64_t channels);

}  // namespace pursuit::apps
