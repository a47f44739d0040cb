#include "apps/classify/attention_map.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/classify/pipeline.h"
#include "apps/common/heatmap.h"
#include "engine/core/error.h"
#include "engine/ops.h"

namespace pursuit::classify {

namespace {

constexpr int gap = 8;  // white pixels between the two pictures

std::vector<float> floats(const Tensor& t) {
  const std::vector<double> values = t.to_vector();
  return {values.begin(), values.end()};
}

data::Image enlarge(const data::Image& image, int side) {
  const int shorter = std::min(image.width, image.height), factor = (side + shorter - 1) / shorter;
  data::Image out(image.width * factor, image.height * factor, image.channels);
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x)
      std::copy_n(image.at(x / factor, y / factor), image.channels, out.at(x, y));
  return out;
}

void paste(data::Image& onto, const data::Image& image, int left) {
  for (int y = 0; y < image.height; ++y)
    std::copy_n(image.at(0, y), size_t(image.width) * size_t(image.channels), onto.at(left, y));
}

}  // namespace

Prediction look_at(const LoadedModel& loaded, const data::Image& image, int block,
                   const std::vector<int64_t>& only) {
  const Config& c = loaded.config;
  Prediction p;
  p.view = evaluation_view(c, image);
  std::vector<uint8_t> planes(size_t(c.channels * c.image_size * c.image_size));
  Random unused(0);
  evaluation_transform(c)({p.view, 0, 0}, unused, planes);

  NoGrad off;
  const nn::VisionTransformer& model = *loaded.model;
  const Tensor input = input_of(c, planes);
  const Tensor all = model(input).to(DType::f32), logits = only.empty() ? all : restricted(all, only);
  p.logits = floats(logits);
  p.probabilities = floats(softmax(logits));
  if (!std::all_of(p.logits.begin(), p.logits.end(), [](float v) { return std::isfinite(v); }))
    fail("predict", loaded.name + ": the model gives values that are not finite; its training has diverged");
  p.ranking.resize(p.logits.size());
  std::iota(p.ranking.begin(), p.ranking.end(), 0);
  std::stable_sort(p.ranking.begin(), p.ranking.end(),
                   [&](int a, int b) { return p.logits[size_t(a)] > p.logits[size_t(b)]; });

  p.grid = int(c.image_size / c.patch);
  // [1, heads, N] to [N - 1]
  p.attention = floats(mean(model.class_attention(input, block), {1}).slice(-1, 1, 1 + p.grid * p.grid));
  return p;
}

data::Image attention_overlay(const Prediction& p, int side) {
  return apps::blend_heatmap(data::to_rgb(enlarge(p.view, side)), p.attention, p.grid, p.grid);
}

data::Image attention_pair(const Prediction& p, int side) {
  const data::Image overlay = attention_overlay(p, side);
  data::Image pair(2 * overlay.width + gap, overlay.height, 3);
  std::fill(pair.pixels.begin(), pair.pixels.end(), uint8_t(255));
  paste(pair, data::to_rgb(enlarge(p.view, side)), 0);
  paste(pair, overlay, overlay.width + gap);
  return pair;
}

}  // namespace pursuit::classify
