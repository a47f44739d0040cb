#include <algorithm>

#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

constexpr size_t most_cutoffs = 16;

struct CountsLabel {
  const int64_t* label;
  float* counts;
  int64_t ignore_index;
  HD void operator()(int64_t i, int64_t j) const { counts[j] = label[i] == ignore_index ? 0.0f : 1.0f; }
};

struct WithinRange {
  const int64_t* label;
  int64_t* y;
  int64_t begin, end, ignore_index;
  HD void operator()(int64_t i, int64_t j) const {
    const bool inside = label[i] >= begin && label[i] < end && label[i] != ignore_index;
    y[j] = inside ? label[i] - begin : -1;
  }
};

struct HeadColumn {
  const int64_t* label;
  int64_t* y;
  int64_t cutoffs[most_cutoffs + 1];  // and the number of classes
  int count;
  int64_t ignore_index;
  HD void operator()(int64_t i, int64_t j) const {
    const int64_t l = label[i], classes = cutoffs[count];
    const bool ignored = l == ignore_index, valid = l >= 0 && l < classes;
    y[j] = ignored ? -1 : valid ? l : classes;
    for (int c = 0; c < count; ++c)
      if (!ignored && valid && l >= cutoffs[c]) y[j] = cutoffs[0] + c;
  }
};

Tensor as_i64(const char* where, const Tensor& labels) {
  require_defined(where, {&labels});
  if (is_floating(labels.dtype())) fail(where, "got labels " + labels.str() + ", need integers");
  return labels.to(DType::i64);
}

}  // namespace

Tensor label_count(const Tensor& labels, int64_t ignore_index) {
  const Tensor label = as_i64("label_count", labels);
  const Tensor counts = empty(labels.shape(), DType::f32, labels.device());
  dispatch(labels.device(), "label_count", [&](auto dev) {
    for_each(dev, layout_of(label.shape(), label, counts),
             CountsLabel{label.data<int64_t>(), counts.data<float>(), ignore_index});
  });
  return sum(counts);
}

Tensor labels_within(const Tensor& labels, int64_t begin, int64_t end, int64_t ignore_index) {
  const Tensor label = as_i64("labels_within", labels), y = empty_like(label);
  dispatch(labels.device(), "labels_within", [&](auto dev) {
    for_each(dev, layout_of(label.shape(), label, y),
             WithinRange{label.data<int64_t>(), y.data<int64_t>(), begin, end, ignore_index});
  });
  return y;
}

Tensor head_labels(const Tensor& labels, const std::vector<int64_t>& cutoffs, int64_t classes,
                   int64_t ignore_index) {
  if (cutoffs.size() > most_cutoffs)
    fail("head_labels",
         "got " + std::to_string(cutoffs.size()) + " cutoffs, need at most " + std::to_string(most_cutoffs));
  const Tensor label = as_i64("head_labels", labels), y = empty_like(label);
  HeadColumn f{label.data<int64_t>(), y.data<int64_t>(), {}, int(cutoffs.size()), ignore_index};
  std::copy(cutoffs.begin(), cutoffs.end(), f.cutoffs);
  f.cutoffs[f.count] = classes;
  dispatch(labels.device(), "head_labels",
           [&](auto dev) { for_each(dev, layout_of(label.shape(), label, y), f); });
  return y;
}

}  // namespace pursuit
