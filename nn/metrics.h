#pragma once
#include <cstdint>
#include <vector>

#include "engine/core/tensor.h"

namespace pursuit::nn {

// Confusion matrix for segmentation and per-class accuracy.
class ConfusionMatrix {
 public:
  // Labels equal to ignore_index are not counted.
  explicit ConfusionMatrix(int64_t classes, int64_t ignore_index = -1);

  // Adds predicted classes and labels, integers of the same shape. Throws if a class does not exist.
  void add(const Tensor& predictions, const Tensor& labels);

  int64_t classes() const { return classes_; }
  int64_t at(int64_t label, int64_t prediction) const {
    return counts_[size_t(label * classes_ + prediction)];
  }
  int64_t total() const;
  // All counts, [label, prediction] in row-major order; the caller sums those of several processes.
  const std::vector<int64_t>& counts() const { return counts_; }
  void set_counts(std::vector<int64_t> counts);

  // Per class; -1 where the denominator is 0.
  std::vector<double> iou() const;       // diagonal / (row + column - diagonal)
  std::vector<double> accuracy() const;  // diagonal / row
  // The mean over classes with a denominator; -1 if there are none.
  double mean_iou() const;
  double mean_accuracy() const;
  double overall_accuracy() const;  // diagonal / all

 private:
  int64_t classes_, ignore_index_;
  std::vector<int64_t> counts_;  // [label, prediction]
};

// The number of rows of logits [rows, classes] whose label [rows] is among the k largest; of equal logits the
// lower class ranks first, as in argmax. A row whose label has a NaN logit does not count.
int64_t top_k_correct(const Tensor& logits, const Tensor& labels, int64_t k);

// The area under the precision-recall curve of a detector: the average precision, sum over thresholds of
// (recall - previous recall) precision, where samples of equal score share a threshold. A larger score says
// positive. NaN without positives. Throws Error if a score is NaN or the sizes differ.
double average_precision(const std::vector<double>& scores, const std::vector<bool>& positive);

}  // namespace pursuit::nn
