#pragma once
#include <complex>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/attention/attention.h"
#include "nn/kernel_pca.h"
#include "nn/qk_matrix.h"

// What a model's attention layers do on given inputs, as numbers per layer and head.
namespace pursuit::nn {

// One iteration of principal component pursuit, K = L + S + rest.
struct PursuitMeasures {
  std::vector<double> low_rank, sparse;  // singular values of L and S
  double share = 0;                      // of the entries of S that are not 0
  double residual = 0;                   // |K - L - S|_F / |K|_F
};

// What Scaled Attention subtracts from the values, S v, beside remark 3's S* (analytic_s).
struct ScaledMeasures {
  double learned = 0, analytic = 0;  // |S v|_F / |v|_F of both
  double distance = 0;               // |S - S*|_F / |S*|_F
  double cosine = 0;                 // <S, S*> / (|S|_F |S*|_F); NaN for S = 0
};

// Means over the samples. What the kernel-PCA part needs an eigendecomposition for is a mean over the first
// few; it is NaN for kinds whose weights are no exponentials, and `exact` also for causal layers.
struct HeadMeasures {
  double entropy = 0;        // of the attention probabilities, nats, mean over the queries
  double rank_residual = 0;  // |U - mean token|_F / |U|_F of the head's output U [N, D]; 0: collapsed
  double token_cosine = 0;   // mean cosine of different tokens of U; 1: collapsed
  QkStatistics w;            // of the query-key matrix
  std::vector<std::complex<double>> eigenvalues;  // of W_QK
  ProjectionError projection;                     // of the attention's output
  double exact = 0;                      // J_proj, as the paper defines it, with the values of kernel_pca
  std::vector<double> spectrum;          // the first D eigenvalues of the centred Gram matrix
  double trace = 0;                      // the sum of all N
  EigenvectorCheck learned, control;     // of the coefficients that the values imply, and of random ones
  double cka = 0;                        // linear CKA of the values and those of kernel_pca
  std::vector<double> keys;              // singular values of K
  std::vector<PursuitMeasures> pursuit;  // of kinds that iterate
  std::optional<ScaledMeasures> scaled;  // of Scaled Attention
};

// Calls f(name, number, whether it is of the decomposed samples alone) for every number of a head.
template <class Head, class F> void for_each_number(Head& h, const F& f) {
  f("entropy", h.entropy, false);
  f("rank_residual", h.rank_residual, false);
  f("token_cosine", h.token_cosine, false);
  f("j_proj", h.projection.paper, false);
  f("j_proj_published", h.projection.published, false);
  f("j_proj_reproduction", h.projection.reproduction, false);
  f("query_norm2", h.projection.query, false);
  f("output_norm2", h.projection.output, false);
  f("j_proj_exact", h.exact, true);
  f("gram_trace", h.trace, true);
  for (auto& [check, of] : {std::pair{&h.learned, 0}, {&h.control, 1}}) {
    f(of ? "control_spread" : "gamma_spread", check->spread, true);
    f(of ? "control_deviation" : "gamma_deviation", check->deviation, true);
    f(of ? "control_relative" : "gamma_relative", check->relative, true);
    f(of ? "control_cosine" : "gamma_cosine", check->cosine, true);
  }
  f("value_cka", h.cka, true);
}

// Of a layer's output, before it is added to the residual stream.
struct OutputMeasures {
  double infinity_norm = 0;  // the largest of the samples
  // Of the entries, m4 / m2^2, mean over the samples: a normal distribution has 3, equal entries have 0.
  double kurtosis = 0;
  // Entries more than 6 standard deviations of a sample's output from its mean (Bondarenko et al. 2023, section
  // 3): their number in each dimension, mean over the samples.
  std::vector<double> outliers = {};

  double outlier_count() const;  // in all dimensions
  // The dimension with most outliers; none: -1.
  int64_t outlier_dimension() const;
};

// The head of a layer that adds least to the stream, on one sample (Bondarenko et al. 2023, section 3: heads that
// do nothing attend to tokens with small values).
struct QuietHead {
  int64_t head = 0;
  double update = 0;                    // |U|_F / |V|_F of its output and its values; the least of the layer
  std::vector<double> attention;        // [N], weight of a token's value, mean over the queries that see it
  std::vector<double> values, outputs;  // [N], norms of a token's value and output
};

struct LayerMeasures {
  std::string name, kind;  // "blocks.0", "rpc"
  bool causal = false;
  OutputMeasures output = {};
  std::optional<OutputMeasures> mlp = {};  // of the Mlp `mlp` in the same block, if it has one
  std::optional<QuietHead> quiet = {};     // of the first sample
  std::vector<HeadMeasures> heads = {};

  // log of the mean of ProjectionError::published over the heads, as the published code logs it; NaN if that
  // mean is negative.
  double published_log() const;
};

struct InspectionOptions {
  int64_t decomposed = 4;  // samples with eigendecompositions and singular values
  Tensor control = {};     // random coefficients [N, D] for tests; undefined: drawn for every head
};

// Looks on while a model runs. Layers are named by the model's parameters.
class AttentionInspection {
 public:
  explicit AttentionInspection(const Module& model, const InspectionOptions& options = {});
  ~AttentionInspection();
  // Adds the samples of the batches that `forward` gives to the model. Throws Error that names the layer if its
  // values are not finite.
  void add(const std::function<void()>& forward);

  // In the order in which the model runs them; empty if none has run.
  std::vector<LayerMeasures> layers() const;
  // Lines about measures that are not numbers, for example "J_proj as published has no logarithm in blocks.0
  // (the mean is negative)". Kinds that a measure does not fit are named too.
  static std::vector<std::string> notes(const std::vector<LayerMeasures>& layers);

 private:
  struct Layer;
  void see(const Attention& layer, const Tensor& x);
  void see(const Mlp& mlp, const Tensor& output);

  const Module& model_;
  InspectionOptions options_;
  std::vector<std::unique_ptr<Layer>> layers_;
};

// L and S on the tokens of one sample, for pictures: the norms of a token's rows in L and in S after every
// iteration, means over the heads, of the first layer that iterates.
struct PursuitMaps {
  std::string layer;
  std::vector<std::vector<float>> low_rank, sparse;  // [iterations][N]
};
// Of the first sample of the batch that `forward` gives to the model. Empty if no layer iterates.
PursuitMaps pursuit_maps(const Module& model, const std::function<void()>& forward);

}  // namespace pursuit::nn
