#pragma once
#include <cstdint>
#include <vector>

#include "data/loader.h"
#include "engine/random.h"

namespace pursuit::data {

// Mixup (Zhang et al., ICLR 2018) and CutMix (Yun et al., ICCV 2019) as timm applies them to a whole batch,
// with DeiT's values. An alpha of 0 switches that kind off.
struct MixupOptions {
  double mixup_alpha = 0.8, cutmix_alpha = 1.0;
  double probability = 1.0;         // that a batch is mixed at all
  double switch_probability = 0.5;  // that it is CutMix, if both kinds are on
  double label_smoothing = 0.1;
};

// What is done to a batch: picture b becomes lambda b + (1 - lambda) partner, or has the box's pixels from
// its partner, where the partner of b is picture B-1-b.
struct Mix {
  bool cutmix = false;
  double lambda = 1;  // share of the picture's own class; for CutMix 1 - area of the box
  int64_t top = 0, bottom = 0, left = 0, right = 0;  // rows top .. bottom-1, columns left .. right-1
};

// Throws pursuit::Error if an option is out of its range.
Mix draw_mix(const MixupOptions& options, int64_t height, int64_t width, Random& random);

void apply_mix(const Mix& mix, Batch& batch);

// Soft targets [B, classes]: one-hot labels smoothed to 1 - s + s/classes and s/classes, then mixed with the
// partner's. Throws if a label is not in 0 .. classes-1.
std::vector<float> mix_targets(const std::vector<int32_t>& labels, int64_t classes, double label_smoothing,
                               const Mix& mix = {});

// Draws, applies, and returns the targets.
std::vector<float> mixup(Batch& batch, int64_t classes, const MixupOptions& options, Random& random);

// Beta(a, b) for a, b > 0.
double sample_beta(Random& random, double a, double b);

}  // namespace pursuit::data
