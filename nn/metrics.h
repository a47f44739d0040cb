#pragma once
#include <cstdint>
#include <vector>

#include "engine/core/tensor.h"

namespace pursuit::nn {

// Counts predictions against labels, for segmentation and for per-class accuracy.
class ConfusionMatrix {
 public:
  // Labels equal to ignore_index are not counted.
  explicit ConfusionMatrix(int64_t classes, int64_t ignore_index = -1);

  // Adds predicted classes and labels, integers of one shape. Throws on a class that does not exist.
  void add(const Tensor& predictions, const Tensor& labels);

  int64_t classes() const { return classes_; }
  int64_t at(int64_t label, int64_t prediction) const {
    return counts_[size_t(label * classes_ + prediction)];
  }
  int64_t total() const;
  // All of them, [label, prediction] row by row: counts of several processes are added up outside.
  const std::vector<int64_t>& counts() const { return counts_; }
  void set_counts(std::vector<int64_t> counts);

  // Of each class, -1 where its denominator is 0.
  std::vector<double> iou() const;       // diagonal / (row + column - diagonal)
  std::vector<double> accuracy() const;  // diagonal / row
  // Over the classes that have one; -1 if none has.
  double mean_iou() const;
  double mean_accuracy() const;
  double overall_accuracy() const;  // diagonal / all

 private:
  int64_t classes_, ignore_index_;
  std::vector<int64_t> counts_;  // [label, prediction]
};

// Rows of logits [rows, classes] whose label [rows] is among the k largest; of equal logits the lower class
// comes first, as in argmax. A row whose label has a NaN logit is not counted.
int64_t top_k_correct(const Tensor& logits, const Tensor& labels, int64_t k);

}  // namespace pursuit::nn
