#include "nn/adaptive_softmax.h"

#include <algorithm>
#include <cmath>

#include "engine/core/shapes_only.h"
#include "engine/ops.h"

namespace pursuit::nn {

namespace {

// An undefined tensor stays undefined.
Tensor converted(const Tensor& t, DType dtype) { return t.defined() ? t.to(dtype) : t; }

// A weight beside x: in its dtype, or codes as they are.
Tensor as_factor(const Tensor& t, const Tensor& x) {
  return t.defined() && t.dtype() != DType::i8 ? t.to(x.dtype()) : t;
}

}  // namespace

AdaptiveSoftmax::AdaptiveSoftmax(int64_t dim, int64_t classes, const std::vector<int64_t>& cutoffs,
                                 double div_value, OutputBias bias)
    : dim_(dim), classes_(classes), cutoffs_(cutoffs), tails_(cutoffs.size()) {
  cut_classes();
  if (!(div_value >= 1))
    fail("adaptive_softmax", "div_value is " + std::to_string(div_value) + ", need at least 1");
  const int64_t columns = cutoffs.empty() ? classes : cutoffs[0] + int64_t(cutoffs.size());
  add_parameter("head.weight", head_weight_, {columns, dim}, {Role::embedding});
  if (bias != OutputBias::none) add_parameter("head.bias", head_bias_, {columns});
  for (size_t i = 0; i < cutoffs.size(); ++i) {
    Tail& tail = tails_[i];
    const int64_t inner = int64_t(double(dim) / std::pow(div_value, double(i + 1)));
    if (inner < 1)
      fail("adaptive_softmax", "cluster " + std::to_string(i) + " would project " + std::to_string(dim) +
                                   " numbers to none; use a smaller div_value or fewer cutoffs");
    const std::string name = "tail." + std::to_string(i);
    add_parameter(name + ".0.weight", tail.project, {inner, dim}, {Role::tail_projection, dim});
    add_parameter(name + ".1.weight", tail.weight, {tail.end - tail.begin, inner}, {Role::weight, inner});
    if (bias == OutputBias::all) add_parameter(name + ".1.bias", tail.bias, {tail.end - tail.begin});
  }
}

AdaptiveSoftmax::AdaptiveSoftmax(const Tensor& embedding, const std::vector<int64_t>& cutoffs, bool with_bias)
    : dim_(embedding.size(1)),
      classes_(embedding.size(0)),
      cutoffs_(cutoffs),
      embedding_(&embedding),
      tails_(cutoffs.size()) {
  cut_classes();
  const int64_t clusters = int64_t(cutoffs.size());
  if (clusters) add_parameter("head.cluster.weight", head_weight_, {clusters, dim_}, {Role::embedding});
  if (with_bias) add_parameter("bias", bias_, {classes_});
  if (with_bias && clusters) add_parameter("head.cluster.bias", head_bias_, {clusters});
}

void AdaptiveSoftmax::cut_classes() {
  int64_t before = 0;
  for (size_t i = 0; i < cutoffs_.size(); ++i) {
    const int64_t c = cutoffs_[i];
    if (c <= before || c >= classes_)
      fail("adaptive_softmax", "cutoff " + std::to_string(c) + " is not between " + std::to_string(before) +
                                   " and " + std::to_string(classes_) +
                                   "; cutoffs ascend and leave out the last class count");
    tails_[i].begin = before = c;
    tails_[i].end = i + 1 < cutoffs_.size() ? cutoffs_[i + 1] : classes_;
  }
}

AdaptiveSoftmax::Part AdaptiveSoftmax::head(const Tensor& x) const {
  if (x.ndim() != 2 || x.size(1) != dim_)
    fail("adaptive_softmax", "got " + x.str() + ", need [rows, " + std::to_string(dim_) + "]");
  const Tensor own = as_factor(head_weight_, x), own_bias = converted(head_bias_, x.dtype());
  if (!embedding_) return {x, own, own_bias, {}, head_scale_};
  const Tensor all = as_factor(*embedding_, x), bias = converted(bias_, x.dtype()),
               scale = embedding_scale_ ? *embedding_scale_ : Tensor();
  if (cutoffs_.empty()) return {x, all, bias, {}, scale};
  const auto first = [&](const Tensor& t) { return t.slice(0, 0, cutoffs_[0]); };
  const auto joined = [&](const Tensor& of_all, const Tensor& of_clusters) {
    return of_all.defined() ? concat({first(of_all), of_clusters}, 0) : of_all;
  };
  return {x, joined(all, own), joined(bias, own_bias), {}, joined(scale, head_scale_)};
}

AdaptiveSoftmax::Part AdaptiveSoftmax::tail(size_t i, const Tensor& x) const {
  const Tail& tail = tails_[i];
  if (!embedding_)
    return {linear(x, tail.project.to(x.dtype())),
            tail.weight.to(x.dtype()),
            converted(tail.bias, x.dtype()),
            {}};
  const auto own = [&](const Tensor& t) { return t.defined() ? t.slice(0, tail.begin, tail.end) : t; };
  return {x,
          own(as_factor(*embedding_, x)),
          own(converted(bias_, x.dtype())),
          {},
          embedding_scale_ ? own(*embedding_scale_) : Tensor()};
}

std::vector<AdaptiveSoftmax::Part> AdaptiveSoftmax::parts(const Tensor& x, const Tensor& labels,
                                                          int64_t ignore_index) const {
  std::vector<Part> all{head(x)};
  if (labels.shape() != Shape{x.size(0)} || is_floating(labels.dtype()) || labels.device() != x.device())
    fail("adaptive_softmax",
         "got labels " + labels.str() + " for " + x.str() + ", need one integer a row on its device");
  if (!labels.device().is_cuda() && !shapes_only())
    for (const double label : labels.to_vector())
      if (label != double(ignore_index) && (label < 0 || label >= double(classes_)))
        fail("adaptive_softmax", "label " + std::to_string(int64_t(label)) + " is not one of " +
                                     std::to_string(classes_) + " classes, nor the ignored " +
                                     std::to_string(ignore_index));
  all[0].labels = head_labels(labels, cutoffs_, classes_, ignore_index);
  for (size_t i = 0; i < tails_.size(); ++i) {
    all.push_back(tail(i, x));
    all.back().labels = labels_within(labels, tails_[i].begin, tails_[i].end, ignore_index);
  }
  return all;
}

Tensor AdaptiveSoftmax::loss(const Tensor& x, const Tensor& labels, int64_t ignore_index) const {
  require_defined("adaptive_softmax", {&x, &labels});
  if (quantization())
    fail("adaptive_softmax", "a quantised model is not trained; train the model that it was made of");
  const Tensor count = label_count(labels, ignore_index);
  Tensor total;
  for (const Part& p : parts(x, labels, ignore_index)) {
    const Tensor loss = linear_cross_entropy(p.x, p.weight, p.bias, p.labels, -1, count);
    total = total.defined() ? total + loss : loss;
  }
  return total;
}

Tensor AdaptiveSoftmax::target_log_prob(const Tensor& x, const Tensor& labels, int64_t ignore_index) const {
  NoGrad off;
  Tensor total;
  for (const Part& p : parts(x, labels, ignore_index)) {
    const Tensor log_p =
        p.scale.defined() ? coded_log_prob(p) : linear_log_prob(p.x, p.weight, p.bias, p.labels);
    total = total.defined() ? total + log_p : log_p;
  }
  return total;
}

Tensor AdaptiveSoftmax::scores(const Part& p) const {
  return p.scale.defined() ? quantized_product(*quantization(), p.x, *of_x_, p.weight, p.scale, p.bias)
                           : linear(p.x, p.weight, p.bias);
}

// log p of the labels, 0 where they are -1.
Tensor AdaptiveSoftmax::coded_log_prob(const Part& p) const {
  if (quantization()->run == QuantizedRun::integer)
    return int8_log_prob(p.x, {of_x_->grid(), p.weight, p.scale, p.bias}, p.labels);
  return linear_log_prob(p.x, dequantize(p.weight, p.scale), p.bias, p.labels);
}

void AdaptiveSoftmax::set_input(const Quantizer& of_x, const Tensor* embedding_scale) {
  of_x_ = &of_x;
  embedding_scale_ = embedding_scale;
}

void AdaptiveSoftmax::on_quantize() {
  if (quantization()->config.float_head || (!embedding_ && !cutoffs_.empty())) return;
  if (!head_weight_.defined()) return;
  code_parameter(embedding_ ? "head.cluster.weight" : "head.weight", head_weight_, head_scale_);
}

Tensor AdaptiveSoftmax::log_prob(const Tensor& x) const {
  const auto log_p = [&](const Part& p) { return log_softmax(scores(p)); };
  const Tensor of_head = log_p(head(x));
  if (cutoffs_.empty()) return of_head;
  std::vector<Tensor> clusters = {of_head.slice(1, 0, cutoffs_[0])};
  for (size_t i = 0; i < tails_.size(); ++i) {
    const int64_t column = cutoffs_[0] + int64_t(i);
    clusters.push_back(log_p(tail(i, x)) + of_head.slice(1, column, column + 1));
  }
  return concat(clusters, 1);
}

}  // namespace pursuit::nn
