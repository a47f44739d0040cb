#pragma once
#include "apps/segment/predictor.h"
#include "nn/attacks/registry.h"

namespace pursuit::segment {

// Attacks the predictor's view x [1, 3, h, w] (normalised, f32) of picture `number`, away from its `labels`
// (any size, resized to the nearest pixel). Every labelled pixel of every window counts as a sample of the
// loss, so that a pixel in two windows counts twice; the predictor averages the logits there instead. x is
// returned unchanged if no pixel is labelled.
Tensor attacked(const Predictor& predictor, const Tensor& x, const data::Image& labels,
                const attacks::Settings& settings, int64_t number);

// A step of an attack on a view of this shape, on shapes alone (engine/core/shapes_only.h). The model has
// no leaves.
void attack_on_shapes(const Predictor& predictor, const Shape& view);

}  // namespace pursuit::segment
