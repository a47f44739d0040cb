#include "nn/adaptive_softmax.h"

#include <cmath>

#include "engine/ops.h"

namespace pursuit::nn {

namespace {

Tensor index(const std::vector<int32_t>& values, Device device) {
  return from_vector(values, {int64_t(values.size())}, device);
}

// Adds log_softmax(logits)[i, labels[i]] to out[rows[i]].
void add_picked(const Tensor& logits, const std::vector<int32_t>& rows, const std::vector<int32_t>& labels,
                const Tensor& out) {
  const std::vector<double> log_p = log_softmax(logits).to_vector();
  const size_t columns = size_t(logits.size(1));
  for (size_t i = 0; i < rows.size(); ++i)
    out.data<double>()[rows[i]] += log_p[i * columns + size_t(labels[i])];
}

}  // namespace

AdaptiveSoftmax::AdaptiveSoftmax(int64_t dim, int64_t classes, const std::vector<int64_t>& cutoffs,
                                 double div_value, bool head_bias)
    : dim_(dim), classes_(classes), tails_(cutoffs.size()) {
  int64_t before = 0;
  for (int64_t c : cutoffs) {
    if (c <= before || c >= classes)
      fail("adaptive_softmax", "cutoff " + std::to_string(c) + " is not between " + std::to_string(before) +
                                   " and " + std::to_string(classes) +
                                   "; cutoffs ascend and leave out the last class count");
    before = c;
  }
  if (cutoffs.empty()) fail("adaptive_softmax", "no cutoffs; use a linear layer and cross_entropy");
  if (!(div_value >= 1))
    fail("adaptive_softmax", "div_value is " + std::to_string(div_value) + ", need at least 1");

  add_parameter("head.weight", head_weight_, {cutoffs[0] + int64_t(cutoffs.size()), dim});
  if (head_bias) add_parameter("head.bias", head_bias_, {cutoffs[0] + int64_t(cutoffs.size())});
  for (size_t i = 0; i < cutoffs.size(); ++i) {
    Tail& tail = tails_[i];
    tail.begin = cutoffs[i];
    tail.end = i + 1 < cutoffs.size() ? cutoffs[i + 1] : classes;
    const int64_t inner = int64_t(double(dim) / std::pow(div_value, double(i + 1)));
    if (inner < 1)
      fail("adaptive_softmax", "cluster " + std::to_string(i) + " would project " + std::to_string(dim) +
                                   " numbers to none; use a smaller div_value or fewer cutoffs");
    const std::string name = "tail." + std::to_string(i);
    add_parameter(name + ".0.weight", tail.project, {inner, dim});
    add_parameter(name + ".1.weight", tail.weight, {tail.end - tail.begin, inner});
  }
}

Tensor AdaptiveSoftmax::head_logits(const Tensor& x) const {
  if (x.ndim() != 2 || x.size(1) != dim_)
    fail("adaptive_softmax", "got " + x.str() + ", need [rows, " + std::to_string(dim_) + "]");
  const Tensor bias = head_bias_.defined() ? head_bias_.to(x.dtype()) : Tensor();
  return linear(x, head_weight_.to(x.dtype()), bias);
}

Tensor AdaptiveSoftmax::tail_logits(const Tail& tail, const Tensor& x) const {
  return linear(linear(x, tail.project.to(x.dtype())), tail.weight.to(x.dtype()));
}

std::vector<int32_t> AdaptiveSoftmax::assign(const Tensor& x, const Tensor& labels,
                                             std::vector<Members>& members) const {
  if (labels.ndim() != 1 || x.ndim() != 2 || labels.size(0) != x.size(0) || is_floating(labels.dtype()))
    fail("adaptive_softmax", "got labels " + labels.str() + " for " + x.str() + ", need one integer a row");
  members.assign(tails_.size(), {});
  std::vector<int32_t> columns;
  for (const double label : labels.to_vector()) {
    if (label < 0 || label >= double(classes_))
      fail("adaptive_softmax", "label " + std::to_string(int64_t(label)) + " is not one of " +
                                   std::to_string(classes_) + " classes");
    size_t cluster = tails_.size();
    while (cluster > 0 && label < double(tails_[cluster - 1].begin)) --cluster;
    if (cluster == 0) {
      columns.push_back(int32_t(label));
      continue;
    }
    members[cluster - 1].rows.push_back(int32_t(columns.size()));
    members[cluster - 1].labels.push_back(int32_t(label - double(tails_[cluster - 1].begin)));
    columns.push_back(int32_t(tails_[0].begin + int64_t(cluster) - 1));
  }
  return columns;
}

Tensor AdaptiveSoftmax::loss(const Tensor& x, const Tensor& labels) const {
  std::vector<Members> members;
  const std::vector<int32_t> columns = assign(x, labels, members);
  if (columns.empty()) fail("adaptive_softmax", "the loss of no rows is not defined");
  Tensor total = cross_entropy(head_logits(x), index(columns, x.device()));
  for (size_t i = 0; i < tails_.size(); ++i) {
    if (members[i].rows.empty()) continue;
    // Picking rows is what an embedding does.
    const Tensor rows = embedding(index(members[i].rows, x.device()), x);
    const Tensor mean_nll = cross_entropy(tail_logits(tails_[i], rows), index(members[i].labels, x.device()));
    total = total + mean_nll * (double(members[i].rows.size()) / double(columns.size()));
  }
  return total;
}

Tensor AdaptiveSoftmax::target_log_prob(const Tensor& x, const Tensor& labels) const {
  NoGrad off;
  std::vector<Members> members;
  const std::vector<int32_t> columns = assign(x, labels, members);
  const Tensor out = zeros({x.size(0)}, DType::f64);
  std::vector<int32_t> every(columns.size());
  for (size_t i = 0; i < every.size(); ++i) every[i] = int32_t(i);
  add_picked(head_logits(x), every, columns, out);
  for (size_t i = 0; i < tails_.size(); ++i) {
    if (members[i].rows.empty()) continue;
    const Tensor rows = embedding(index(members[i].rows, x.device()), x);
    add_picked(tail_logits(tails_[i], rows), members[i].rows, members[i].labels, out);
  }
  return out;
}

Tensor AdaptiveSoftmax::log_prob(const Tensor& x) const {
  const Tensor head = log_softmax(head_logits(x));
  const int64_t first = tails_[0].begin;
  Tensor all = head.slice(1, 0, first);
  for (size_t i = 0; i < tails_.size(); ++i) {
    const int64_t column = first + int64_t(i);
    all = concat(all, log_softmax(tail_logits(tails_[i], x)) + head.slice(1, column, column + 1), 1);
  }
  return all;
}

}  // namespace pursuit::nn
