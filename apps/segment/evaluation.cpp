#include "apps/segment/evaluation.h"

#include <future>

#include "apps/common/signals.h"

namespace pursuit::segment {

namespace {

Tensor numbers(const data::Image& classes) {
  return from_vector(classes.pixels, {classes.height, classes.width});
}

}  // namespace

Evaluated evaluate(const Predictor& predictor, const data::SegmentationDataset& data,
                   const EvaluationHooks& hooks) {
  Evaluated out{nn::ConfusionMatrix(int64_t(data.classes().size()), data::kIgnoredLabel)};
  const auto prepare = [&](int64_t i) {
    data::SegmentationSample sample = data.get(i);
    if (hooks.change) sample.image = hooks.change(sample.image, sample.index);
    return sample;
  };
  std::future<data::SegmentationSample> next;
  const int64_t step = hooks.share.of;
  for (int64_t i = hooks.share.first; i < data.size(); i += step) {
    if (apps::stop_requested()) return out;
    const data::SegmentationSample sample = next.valid() ? next.get() : prepare(i);
    if (i + step < data.size()) next = std::async(std::launch::async, prepare, i + step);
    if (sample.index >= 0) {
      const data::Image classes = predictor.classes_of(sample.image);
      out.matrix.add(numbers(classes), numbers(sample.labels));
      ++out.count;
      if (hooks.seen) hooks.seen(i, sample, classes);
    }
    if (hooks.tick) hooks.tick(i + 1);
  }
  out.complete = true;
  return out;
}

}  // namespace pursuit::segment
