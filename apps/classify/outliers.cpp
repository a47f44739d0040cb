#include "apps/classify/outliers.h"

#include <algorithm>
#include <cmath>

#include "nn/metrics.h"

namespace pursuit::classify {

namespace {

double area(std::vector<double> inliers, const std::vector<double>& outliers) {
  std::vector<bool> positive(inliers.size(), false);
  positive.resize(inliers.size() + outliers.size(), true);
  inliers.insert(inliers.end(), outliers.begin(), outliers.end());
  return nn::average_precision(inliers, positive);
}

}  // namespace

void Strangeness::add(const Tensor& logits) {
  const std::vector<double> values = logits.to_vector();
  const int64_t classes = logits.size(1);
  for (auto row = values.begin(); row != values.end(); row += classes) {
    const double largest = *std::max_element(row, row + classes);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - largest);
    probability.push_back(-1 / sum);
    energy.push_back(-largest - std::log(sum));
  }
}

Results::Outliers detection(const Strangeness& inliers, const Strangeness& outliers) {
  Results::Outliers found;
  found.count = int64_t(outliers.energy.size());
  found.inliers = int64_t(inliers.energy.size());
  found.aupr_probability = area(inliers.probability, outliers.probability);
  found.aupr_energy = area(inliers.energy, outliers.energy);
  return found;
}

}  // namespace pursuit::classify
