#pragma once
#include <vector>

#include "nn/module.h"

namespace pursuit::nn {

// Adaptive softmax (Grave et al. 2017, "Efficient softmax approximation for GPUs") with the layout and the
// names of PyTorch's AdaptiveLogSoftmaxWithLoss. Classes are sorted by falling frequency. The head scores the
// first cutoffs[0] classes and one column a cluster; cluster i holds the classes from cutoffs[i] up to the
// next cutoff (the last one up to `classes`) and projects to floor(dim / div_value^(i+1)) first. Parameters:
// head.weight [cutoffs[0] + clusters, dim], head.bias with `head_bias`, and for each cluster tail.i.0.weight
// [projection, dim], tail.i.1.weight [cluster's classes, projection].
class AdaptiveSoftmax : public Module {
 public:
  // `cutoffs` ascending, without `classes` at the end; throws if they are not within 1 .. classes-1.
  AdaptiveSoftmax(int64_t dim, int64_t classes, const std::vector<int64_t>& cutoffs, double div_value = 4,
                  bool head_bias = false);

  // Mean of -log p(label) over the rows of x [rows, dim], a scalar; labels [rows], integers. Each cluster's
  // logits are computed for the rows of that cluster alone, so the labels are read on the host: keep them on
  // the CPU.
  Tensor loss(const Tensor& x, const Tensor& labels) const;

  // log p(label) of every row, [rows], f64. Off the tape.
  Tensor target_log_prob(const Tensor& x, const Tensor& labels) const;

  // log p of every class, [rows, classes].
  Tensor log_prob(const Tensor& x) const;

 private:
  struct Tail {
    int64_t begin, end;  // classes
    Tensor project, weight;
  };
  // The rows whose label lies in one cluster, and the labels counted from its first class.
  struct Members {
    std::vector<int32_t> rows, labels;
  };
  Tensor head_logits(const Tensor& x) const;
  Tensor tail_logits(const Tail& tail, const Tensor& x) const;
  // Sorts rows by cluster; returns every row's column in the head.
  std::vector<int32_t> assign(const Tensor& x, const Tensor& labels, std::vector<Members>& members) const;

  int64_t dim_, classes_;
  Tensor head_weight_, head_bias_;
  std::vector<Tail> tails_;
};

}  // namespace pursuit::nn
