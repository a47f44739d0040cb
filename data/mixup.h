#pragma once
#include <cstdint>
#include <vector>

#include "data/image.h"
#include "engine/random.h"

namespace pursuit::data {

// Mixup (Zhang et al., ICLR 2018) and CutMix (Yun et al., ICCV 2019) as timm applies them to a whole batch,
// with DeiT's values. An alpha of 0 switches that kind off.
struct MixupOptions {
  double mixup_alpha = 0.8, cutmix_alpha = 1.0;
  double probability = 1.0;         // that a batch is mixed at all
  double switch_probability = 0.5;  // that it is CutMix, if both kinds are on
};

// What is done to a batch, see normalise_images: in a box, the whole picture for mixup, the pixels of picture
// b become `own` times themselves plus 1 - own times those of its partner, picture B-1-b.
struct Mix {
  bool cutmix = false;
  double lambda = 1;  // share of the picture's own class; for CutMix 1 - area of the box
  Box box;            // empty: nothing is mixed
  float own() const { return cutmix ? 0.0f : float(lambda); }
};

// Throws pursuit::Error if an option is out of its range.
Mix draw_mix(const MixupOptions& options, int width, int height, Random& random);

// Soft targets [B, classes]: one-hot labels smoothed to 1 - s + s/classes and s/classes, then mixed with the
// partner's. Throws if a label is not in 0 .. classes-1.
std::vector<float> mix_targets(const std::vector<int32_t>& labels, int64_t classes, double label_smoothing,
                               const Mix& mix = {});

// Beta(a, b) for a, b > 0.
double sample_beta(Random& random, double a, double b);

}  // namespace pursuit::data
