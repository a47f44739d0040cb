#include "nn/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pursuit::nn {

void Calibration::add(const Tensor& logits, const Tensor& labels) {
  if (logits.ndim() != 2 || labels.shape() != Shape{logits.size(0)} || is_floating(labels.dtype()))
    fail("calibration", "got logits " + logits.str() + " and labels " + labels.str() +
                            ", need [rows, classes] and one integer a row");
  const std::vector<double> values = logits.to_vector(), wanted = labels.to_vector();
  const int64_t classes = logits.size(1), last = int64_t(bins.size()) - 1;
  for (size_t r = 0; r < wanted.size(); ++r) {
    const double* row = values.data() + int64_t(r) * classes;
    const double* largest = std::max_element(row, row + classes);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - *largest);
    const double confidence = 1 / sum;
    if (!std::isfinite(confidence)) fail("calibration", "the logits " + logits.str() + " are not finite");
    const auto bin = int64_t(std::ceil(confidence * double(bins.size()))) - 1;
    Bin& at = bins[size_t(std::clamp<int64_t>(bin, 0, last))];
    ++at.count;
    at.correct += int64_t(wanted[r]) == largest - row;
    at.confidence += confidence;
  }
}

int64_t Calibration::count() const {
  int64_t all = 0;
  for (const Bin& b : bins) all += b.count;
  return all;
}

double Calibration::error() const {
  double sum = 0;
  for (const Bin& b : bins) sum += std::abs(double(b.correct) - b.confidence);
  return count() ? sum / double(count()) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace pursuit::nn
