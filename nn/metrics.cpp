#include "nn/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace pursuit::nn {

namespace {

double ratio(int64_t part, int64_t whole) { return whole ? double(part) / double(whole) : -1; }

double mean_of_defined(const std::vector<double>& values) {
  double sum = 0;
  int64_t count = 0;
  for (double v : values)
    if (v >= 0) {
      sum += v;
      ++count;
    }
  return count ? sum / double(count) : -1;
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(int64_t classes, int64_t ignore_index)
    : classes_(classes), ignore_index_(ignore_index) {
  if (classes < 1) fail("confusion matrix", "needs at least one class, got " + std::to_string(classes));
  counts_.assign(size_t(classes * classes), 0);
}

void ConfusionMatrix::add(const Tensor& predictions, const Tensor& labels) {
  if (predictions.shape() != labels.shape() || is_floating(predictions.dtype()) ||
      is_floating(labels.dtype()))
    fail("confusion matrix",
         "got " + predictions.str() + " and " + labels.str() + ", need integers of one shape");
  const std::vector<double> p = predictions.to_vector(), l = labels.to_vector();
  for (size_t i = 0; i < l.size(); ++i) {
    const int64_t label = int64_t(l[i]), prediction = int64_t(p[i]);
    if (label == ignore_index_) continue;
    if (label < 0 || label >= classes_ || prediction < 0 || prediction >= classes_)
      fail("confusion matrix", "label " + std::to_string(label) + " with prediction " +
                                   std::to_string(prediction) + ", need classes below " +
                                   std::to_string(classes_));
  }
  // Only now, so that nothing is counted of a batch that cannot be counted as a whole.
  for (size_t i = 0; i < l.size(); ++i)
    if (int64_t(l[i]) != ignore_index_) ++counts_[size_t(int64_t(l[i]) * classes_ + int64_t(p[i]))];
}

void ConfusionMatrix::set_counts(std::vector<int64_t> counts) {
  if (counts.size() != counts_.size())
    fail("confusion matrix",
         "got " + std::to_string(counts.size()) + " counts, need " + std::to_string(classes_) + " squared");
  counts_ = std::move(counts);
}

int64_t ConfusionMatrix::total() const { return std::accumulate(counts_.begin(), counts_.end(), int64_t(0)); }

std::vector<double> ConfusionMatrix::iou() const {
  std::vector<double> values;
  for (int64_t c = 0; c < classes_; ++c) {
    int64_t seen = -at(c, c);
    for (int64_t o = 0; o < classes_; ++o) seen += at(c, o) + at(o, c);
    values.push_back(ratio(at(c, c), seen));
  }
  return values;
}

std::vector<double> ConfusionMatrix::accuracy() const {
  std::vector<double> values;
  for (int64_t c = 0; c < classes_; ++c) {
    int64_t row = 0;
    for (int64_t o = 0; o < classes_; ++o) row += at(c, o);
    values.push_back(ratio(at(c, c), row));
  }
  return values;
}

double ConfusionMatrix::mean_iou() const { return mean_of_defined(iou()); }
double ConfusionMatrix::mean_accuracy() const { return mean_of_defined(accuracy()); }

double ConfusionMatrix::overall_accuracy() const {
  int64_t right = 0;
  for (int64_t c = 0; c < classes_; ++c) right += at(c, c);
  return ratio(right, total());
}

double average_precision(const std::vector<double>& scores, const std::vector<bool>& positive) {
  if (scores.size() != positive.size() ||
      std::any_of(scores.begin(), scores.end(), [](double s) { return std::isnan(s); }))
    fail("average precision", "got " + std::to_string(scores.size()) + " scores of " +
                                  std::to_string(positive.size()) + " samples, need a number for each");
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  const auto all = double(std::count(positive.begin(), positive.end(), true));
  if (all == 0) return std::numeric_limits<double>::quiet_NaN();
  double found = 0, area = 0;
  for (size_t i = 0; i < order.size();) {
    double at_threshold = 0;
    const double threshold = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == threshold; ++i) at_threshold += positive[order[i]];
    found += at_threshold;
    area += at_threshold / all * (found / double(i));
  }
  return area;
}

int64_t top_k_correct(const Tensor& logits, const Tensor& labels, int64_t k) {
  if (logits.ndim() != 2 || labels.shape() != Shape{logits.size(0)} || is_floating(labels.dtype()) || k < 1)
    fail("top_k", "got logits " + logits.str() + " and labels " + labels.str() +
                      ", need [rows, classes], one integer a row and k of at least 1");
  const std::vector<double> values = logits.to_vector(), wanted = labels.to_vector();
  const int64_t classes = logits.size(1);
  int64_t correct = 0;
  for (size_t r = 0; r < wanted.size(); ++r) {
    const int64_t label = int64_t(wanted[r]);
    if (label < 0 || label >= classes)
      fail("top_k",
           "label " + std::to_string(label) + " is not one of " + std::to_string(classes) + " classes");
    const double* row = values.data() + int64_t(r) * classes;
    int64_t before = 0;
    for (int64_t c = 0; c < classes; ++c)
      before += row[c] > row[label] || (row[c] == row[label] && c < label);
    correct += before < k && !std::isnan(row[label]);
  }
  return correct;
}

}  // namespace pursuit::nn
