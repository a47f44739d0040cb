#pragma once
#include <vector>

#include "nn/module.h"
#include "nn/quantization/quantizer.h"

namespace pursuit::nn {

// Biases of an output layer: none; one per class and cluster; or only one per column of the head (PyTorch's
// AdaptiveLogSoftmaxWithLoss with head_bias).
enum class OutputBias { none, all, head };

// The output layer of a language model. Without cutoffs it is a softmax over all classes with `head.weight`
// [classes, dim]. With cutoffs it is the adaptive softmax (Grave et al. 2017, "Efficient softmax
// approximation for GPUs"), laid out and named as PyTorch's AdaptiveLogSoftmaxWithLoss: classes are sorted by
// descending frequency, and the head scores the first cutoffs[0] classes and one column per cluster. Cluster
// i holds the classes from cutoffs[i] up to the next cutoff (the last one up to `classes`) and first projects
// to floor(dim / div_value^(i+1)). Parameters: head.weight [cutoffs[0] + clusters, dim]; per cluster
// tail.i.0.weight [projection, dim] and tail.i.1.weight [cluster's classes, projection]; depending on
// OutputBias head.bias [columns] and tail.i.1.bias [cluster's classes].
//
// The weights may also be tied to an embedding whose row c belongs to class c. Then there are no projections
// (equal widths), and the only own weights are the clusters' columns, head.cluster.weight [clusters, dim];
// the biases are bias [classes] and head.cluster.bias [clusters], as in the projected adaptive softmax of
// Transformer-XL (Dai et al. 2019) with equal widths.
//
// Labels are integers on x's device. On the CPU a row is computed in its own cluster only; on a GPU all rows
// go through all clusters, so that the host never waits for the labels. Rows labelled ignore_index do not
// count. Only log_prob stores the logits of a whole batch.
class AdaptiveSoftmax : public Module {
 public:
  // `cutoffs` ascending, without `classes` at the end; throws unless they are within 1 .. classes-1.
  AdaptiveSoftmax(int64_t dim, int64_t classes, const std::vector<int64_t>& cutoffs = {},
                  double div_value = 4, OutputBias bias = OutputBias::none);
  // Tied to an embedding [classes, dim], which must be a parameter of the module that owns this one.
  AdaptiveSoftmax(const Tensor& embedding, const std::vector<int64_t>& cutoffs, bool with_bias = false);

  // Mean of -log p(label) over the rows of x [rows, dim] that are not ignored, a scalar; labels [rows].
  Tensor loss(const Tensor& x, const Tensor& labels, int64_t ignore_index = -1) const;

  // log p(label) of every row, [rows]; 0 for ignored rows. No autograd.
  Tensor target_log_prob(const Tensor& x, const Tensor& labels, int64_t ignore_index = -1) const;

  // log p of every class, [rows, classes].
  Tensor log_prob(const Tensor& x) const;

  // Of a quantised model, before its quantize goes on to this: what rounds x, and the scale of a tied
  // embedding's codes (null: it is f32). A head in floating point stays so, and an adaptive softmax with
  // projections.
  void set_input(const Quantizer& of_x, const Tensor* embedding_scale);

 private:
  struct Tail {
    int64_t begin, end;  // classes
    Tensor project, weight, bias;
  };
  // One term of the loss: features, the weights of its classes, and labels relative to the first of these
  // classes, -1 where ignored.
  struct Part {
    Tensor x, weight, bias, labels;
    Tensor scale = {};  // of codes
  };
  void on_quantize() override;
  Tensor scores(const Part& part) const;  // [rows, classes of the part]
  Tensor coded_log_prob(const Part& part) const;
  std::vector<Part> parts(const Tensor& x, const Tensor& labels, int64_t ignore_index) const;
  Part head(const Tensor& x) const;
  Part tail(size_t i, const Tensor& x) const;
  void cut_classes();

  int64_t dim_, classes_;
  std::vector<int64_t> cutoffs_;
  const Tensor* embedding_ = nullptr;  // of a tied layer
  Tensor head_weight_, head_bias_;     // of a tied layer: of the clusters, undefined without cutoffs
  Tensor bias_;                        // of a tied layer
  std::vector<Tail> tails_;
  const Quantizer* of_x_ = nullptr;          // of a quantised model
  const Tensor* embedding_scale_ = nullptr;  // of a tied, quantised one
  Tensor head_scale_;                        // of codes in head_weight_
};

}  // namespace pursuit::nn
