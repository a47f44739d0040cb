#pragma once
#include <vector>

#include "nn/module.h"

namespace pursuit::nn {

// The output layer of a language model. Without cutoffs a softmax over all classes, `head.weight` [classes,
// dim]. With cutoffs the adaptive softmax (Grave et al. 2017, "Efficient softmax approximation for GPUs")
// with the layout and the names of PyTorch's AdaptiveLogSoftmaxWithLoss: classes are sorted by falling
// frequency, the head scores the first cutoffs[0] classes and one column a cluster; cluster i holds the
// classes from cutoffs[i] up to the next cutoff (the last one up to `classes`) and projects to floor(dim /
// div_value^(i+1)) first. Parameters: head.weight [cutoffs[0] + clusters, dim], head.bias with `head_bias`,
// and for each cluster tail.i.0.weight [projection, dim], tail.i.1.weight [cluster's classes, projection].
//
// The weights may also be tied to an embedding, row c being class c's: then nothing projects (equal widths),
// and the only parameter is the clusters' own columns, head.cluster.weight [clusters, dim].
//
// Labels are integers on x's device. On the CPU a row goes through its own cluster; on a GPU every row goes
// through every cluster, so that nothing waits for the labels. A row labelled ignore_index does not count. No
// step holds the logits of a whole batch, but for log_prob.
class AdaptiveSoftmax : public Module {
 public:
  // `cutoffs` ascending, without `classes` at the end; throws if they are not within 1 .. classes-1.
  AdaptiveSoftmax(int64_t dim, int64_t classes, const std::vector<int64_t>& cutoffs = {},
                  double div_value = 4, bool head_bias = false);
  // Tied to an embedding [classes, dim], a parameter of the module that also owns this one.
  AdaptiveSoftmax(const Tensor& embedding, const std::vector<int64_t>& cutoffs);

  // Mean of -log p(label) over the rows of x [rows, dim] that count, a scalar; labels [rows].
  Tensor loss(const Tensor& x, const Tensor& labels, int64_t ignore_index = -1) const;

  // log p(label) of every row, [rows]; 0 where ignored. Off the tape.
  Tensor target_log_prob(const Tensor& x, const Tensor& labels, int64_t ignore_index = -1) const;

  // log p of every class, [rows, classes].
  Tensor log_prob(const Tensor& x) const;

 private:
  struct Tail {
    int64_t begin, end;  // classes
    Tensor project, weight;
  };
  // What one loss is made of: features, the weights of its classes, and the labels counted from the first of
  // them, -1 where ignored.
  struct Part {
    Tensor x, weight, bias, labels;
  };
  std::vector<Part> parts(const Tensor& x, const Tensor& labels, int64_t ignore_index) const;
  Part head(const Tensor& x) const;
  Part tail(size_t i, const Tensor& x) const;
  void cut_classes();

  int64_t dim_, classes_;
  std::vector<int64_t> cutoffs_;
  const Tensor* embedding_ = nullptr;  // of a tied layer
  Tensor head_weight_, head_bias_;     // of a tied layer the clusters' columns, undefined without cutoffs
  std::vector<Tail> tails_;
};

}  // namespace pursuit::nn
