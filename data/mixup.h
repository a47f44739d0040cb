#pragma once
#include <cstdint>
#include <vector>

#include "data/image.h"
#include "engine/base/random.h"

namespace pursuit::data {

// Mixup (Zhang et al., ICLR 2018) and CutMix (Yun et al., ICCV 2019) as timm applies them to one device's
// batch, with DeiT's values: 4 devices with 256 images each. So a batch of any size is mixed in groups of 256
// images (kMixGroup; the last may be smaller). An alpha of 0 disables that kind.
struct MixupOptions {
  double mixup_alpha = 0.8, cutmix_alpha = 1.0;
  double probability = 1.0;         // that a group is mixed
  double switch_probability = 0.5;  // that it is CutMix, if both are enabled
};

inline constexpr int64_t kMixGroup = 256;

// The image with which image b of a batch is mixed: the one at the mirrored position of its group.
int64_t mix_partner(int64_t b, int64_t batch);

// The mixing of a group, see normalise_images: in a box (the whole image for mixup), an image becomes `own`
// times itself plus 1 - own times its partner.
struct Mix {
  bool cutmix = false;
  double lambda = 1;  // weight of the image's own class; for CutMix 1 - area of the box
  Box box;            // empty: nothing is mixed
  float own() const { return cutmix ? 0.0f : float(lambda); }
};

// Throws pursuit::Error if an option is out of range.
Mix draw_mix(const MixupOptions& options, int width, int height, Random& random);
// One per group of the batch.
std::vector<Mix> draw_mixes(const MixupOptions& options, int64_t batch, int width, int height,
                            Random& random);

// The `mix` input of normalise_images, [B, 6].
std::vector<float> mix_rows(int64_t batch, const std::vector<Mix>& mixes);

// Soft targets [B, classes]: one-hot labels smoothed to 1 - s + s/classes and s/classes, then mixed with the
// partner's unless `mixes` is empty. Throws if a label is not in 0 .. classes-1.
std::vector<float> mix_targets(const std::vector<int64_t>& labels, int64_t classes, double label_smoothing,
                               const std::vector<Mix>& mixes = {});

// Beta(a, b) for a, b > 0.
double sample_beta(Random& random, double a, double b);

}  // namespace pursuit::data
