#pragma once
#include <vector>

#include "apps/classify/results.h"

namespace pursuit::classify {

// Per picture how strange it is to a model, larger for stranger; see Results::Outliers.
struct Strangeness {
  std::vector<double> probability;  // minus the largest softmax probability
  std::vector<double> energy;       // -log sum exp of the logits

  void add(const Tensor& logits);  // f32 [pictures, classes]
};

// The areas under the precision-recall curves, with the outliers as positives, and the numbers of pictures.
Results::Outliers detection(const Strangeness& inliers, const Strangeness& outliers);

}  // namespace pursuit::classify
