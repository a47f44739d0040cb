#pragma once
#include <vector>

#include "apps/classify/run.h"
#include "data/image.h"

namespace pursuit::classify {

// What a model says of one picture, and where its class token looks.
struct Prediction {
  data::Image view;                          // as the model saw it, before normalisation
  std::vector<float> logits, probabilities;  // per class
  std::vector<int> ranking;                  // classes by falling probability, first of equals first
  // The class token's attention in one block, mean over the heads, its own entry left out: [grid, grid].
  std::vector<float> attention;
  int grid = 0;
};

// `block` as in VisionTransformer::class_attention: negative counts from the end. `only` as in restricted(),
// empty: all classes.
Prediction look_at(const LoadedModel& loaded, const data::Image& image, int block = -1,
                   const std::vector<int64_t>& only = {});

// The attention over the picture, RGB; small pictures are enlarged first, so that a side has at least `side`
// pixels and every pixel stays a square.
data::Image attention_overlay(const Prediction& prediction, int side = 224);

// The picture and, to its right, the overlay.
data::Image attention_pair(const Prediction& prediction, int side = 224);

}  // namespace pursuit::classify
