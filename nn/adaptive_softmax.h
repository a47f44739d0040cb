#pragma once
#include <vector>

#include "nn/module.h"

namespace pursuit::nn {

// What an output layer adds to its scores: nothing, a number a class and cluster, or one a column of the head
// alone (PyTorch's AdaptiveLogSoftmaxWithLoss with head_bias).
enum class OutputBias { none, all, head };

// The output layer of a language model. Without cutoffs a softmax over all classes, `head.weight` [classes,
// dim]. With cutoffs the adaptive softmax (Grave et al. 2017, "Efficient softmax approximation for GPUs")
// with the layout and the names of PyTorch's AdaptiveLogSoftmaxWithLoss: classes are sorted by falling
// frequency, the head scores the first cutoffs[0] classes and one column a cluster; cluster i holds the
// classes from cutoffs[i] up to the next cutoff (the last one up to `classes`) and projects to floor(dim /
// div_value^(i+1)) first. Parameters: head.weight [cutoffs[0] + clusters, dim], for each cluster
// tail.i.0.weight [projection, dim], tail.i.1.weight [cluster's classes, projection]; and, by the OutputBias,
// head.bias [columns], tail.i.1.bias [cluster's classes].
//
// The weights may also be tied to an embedding, row c being class c's: then nothing projects (equal widths),
// and the only weights are the clusters' own columns, head.cluster.weight [clusters, dim]; with biases there
// are bias [classes] and head.cluster.bias [clusters], as the projected adaptive softmax of Transformer-XL
// (Dai et al. 2019) has them at equal widths.
//
// Labels are integers on x's device. On the CPU a row goes through its own cluster; on a GPU every row goes
// through every cluster, so that nothing waits for the labels. A row labelled ignore_index does not count. No
// step holds the logits of a whole batch, but for log_prob.
class AdaptiveSoftmax : public Module {
 public:
  // `cutoffs` ascending, without `classes` at the end; throws if they are not within 1 .. classes-1.
  AdaptiveSoftmax(int64_t dim, int64_t classes, const std::vector<int64_t>& cutoffs = {},
                  double div_value = 4, OutputBias bias = OutputBias::none);
  // Tied to an embedding [classes, dim], a parameter of the module that also owns this one.
  AdaptiveSoftmax(const Tensor& embedding, const std::vector<int64_t>& cutoffs, bool with_bias = false);

  // Mean of -log p(label) over the rows of x [rows, dim] that count, a scalar; labels [rows].
  Tensor loss(const Tensor& x, const Tensor& labels, int64_t ignore_index = -1) const;

  // log p(label) of every row, [rows]; 0 where ignored. Off the tape.
  Tensor target_log_prob(const Tensor& x, const Tensor& labels, int64_t ignore_index = -1) const;

  // log p of every class, [rows, classes].
  Tensor log_prob(const Tensor& x) const;

 private:
  struct Tail {
    int64_t begin, end;  // classes
    Tensor project, weight, bias;
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
  Tensor head_weight_, head_bias_;     // of a tied layer the clusters', undefined without cutoffs
  Tensor bias_;                        // of a tied layer
  std::vector<Tail> tails_;
};

}  // namespace pursuit::nn
