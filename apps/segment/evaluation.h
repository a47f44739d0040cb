#pragma once
#include <functional>
#include <string>

#include "apps/segment/predictor.h"
#include "data/segmentation.h"
#include "data/share.h"
#include "nn/metrics.h"

namespace pursuit::segment {

struct EvaluationHooks {
  // Applied to a picture before anything else, a corruption; `number` is the picture's in the whole set.
  std::function<data::Image(const data::Image&, int64_t number)> change = {};
  // What was predicted for sample i of the set.
  std::function<void(int64_t i, const data::SegmentationSample&, const data::Image& classes)> seen = {};
  std::function<void(int64_t pictures)> tick = {};  // pictures done, after each
  data::Share share = {};                           // of the pictures, one a batch
};

struct Evaluated {
  nn::ConfusionMatrix matrix;
  int64_t count = 0;  // pictures
  bool complete = false;
};
// Predicts every picture of the set at its own size and counts classes against labels; stand-ins for damaged
// pictures are not counted. The next picture is made ready beside the prediction. Stops early, with what it
// has, when a stop was requested.
Evaluated evaluate(const Predictor& predictor, const data::SegmentationDataset& data,
                   const EvaluationHooks& hooks = {});

}  // namespace pursuit::segment
