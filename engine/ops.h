#pragma once
#include <optional>
#include <vector>

#include "engine/base/choice.h"
#include "engine/core/tensor.h"

// All differentiable functions of the engine; each is one file in engine/ops. Elementwise and binary ones
// broadcast by NumPy's rules. All take f32, bf16 and (on the CPU) f64 tensors of any strides (comparisons: of
// any dtype). The inputs of a call have the same dtype, except that f32 may be combined with bf16 in binary
// arithmetic, which then gives f32, and where linear, mlp and layer_norm say so. Every gradient has its
// input's dtype.
namespace pursuit {

namespace distributed {
class Communicator;
}

// Arithmetic; add and a + b are in tensor.h. Scalars take the tensor's dtype.
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& x, double c);
Tensor affine(const Tensor& x, double scale, double shift);  // scale x + shift
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return affine(x, -1, -0.0); }  // v + -0.0 is v, also for 0
inline Tensor operator+(const Tensor& x, double c) { return affine(x, 1, c); }
inline Tensor operator-(const Tensor& x, double c) { return affine(x, 1, -c); }
inline Tensor operator*(const Tensor& x, double c) { return affine(x, c, -0.0); }
inline Tensor operator*(double c, const Tensor& x) { return affine(x, c, -0.0); }
inline Tensor operator/(const Tensor& x, double c) { return div(x, c); }
inline Tensor operator+(double c, const Tensor& x) { return affine(x, 1, c); }
inline Tensor operator-(double c, const Tensor& x) { return affine(x, -1, c); }
inline Tensor operator/(double c, const Tensor& x) { return div(full({}, c, x.dtype(), x.device()), x); }
// Rebinds the handle to the result. No values are overwritten; other handles keep theirs.
template <class T> Tensor& operator+=(Tensor& x, const T& other) { return x = x + other; }
template <class T> Tensor& operator-=(Tensor& x, const T& other) { return x = x - other; }
template <class T> Tensor& operator*=(Tensor& x, const T& other) { return x = x * other; }
template <class T> Tensor& operator/=(Tensor& x, const T& other) { return x = x / other; }

// Elementwise comparisons with broadcasting: u8, 1 where true. Both inputs have the same dtype, which may be
// any; no gradient.
Tensor operator==(const Tensor& a, const Tensor& b);
Tensor operator!=(const Tensor& a, const Tensor& b);
Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, const Tensor& b);
Tensor operator==(const Tensor& x, double c);
Tensor operator!=(const Tensor& x, double c);
Tensor operator<(const Tensor& x, double c);
Tensor operator<=(const Tensor& x, double c);
Tensor operator>(const Tensor& x, double c);
Tensor operator>=(const Tensor& x, double c);

// Elementwise.
Tensor abs(const Tensor& x);  // gradient 0 at 0
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor pow(const Tensor& x, double exponent);  // NaN for a negative x unless the exponent is an integer
Tensor pow(const Tensor& x, const Tensor& exponent);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x);                      // x Phi(x), exact (erf)
Tensor silu(const Tensor& x);                      // x sigmoid(x)
Tensor maximum(const Tensor& a, const Tensor& b);  // broadcasts; ties share the gradient equally
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor lerp(const Tensor& a, const Tensor& b, double weight);  // a + weight (b - a); broadcasts
// a where the condition (integers) is not 0, else b; a and b have the same dtype, all broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor clamp(const Tensor& x, double lo, double hi);        // no gradient where clipped
Tensor soft_threshold(const Tensor& x, const Tensor& tau);  // sign(x) max(|x| - tau, 0); tau broadcasts

// Reductions.
Tensor sum(const Tensor& x, const std::vector<int>& dims = {}, bool keep = false);  // no dims: all of them
Tensor mean(const Tensor& x, const std::vector<int>& dims = {}, bool keep = false);
Tensor sum_to(const Tensor& x, const Shape& shape);  // reduces to `shape`, the inverse of broadcasting
Tensor argmax(const Tensor& x);  // over the last dimension, i64, first of ties; no gradient
// The largest (smallest) values along a dimension and their indices, i64; the first of ties, which gets the
// gradient. A NaN counts as the largest and as the smallest.
struct Extremes {
  Tensor values, indices;
};
Extremes max_along(const Tensor& x, int dim, bool keep = false);
Extremes min_along(const Tensor& x, int dim, bool keep = false);
Tensor cumsum(const Tensor& x, int dim);

// Layout. Views where possible, see the methods of Tensor.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor permute(const Tensor& x, const std::vector<int>& dims);
Tensor slice(const Tensor& x, int dim, int64_t begin, int64_t end);
Tensor expand(const Tensor& x, const Shape& shape);
Tensor contiguous(const Tensor& x);
Tensor cast(const Tensor& x, DType dtype);
Tensor to_device(const Tensor& x, Device device);
Tensor concat(const std::vector<Tensor>& parts, int dim);
Tensor stack(const std::vector<Tensor>& parts, int dim);  // along a new dimension

Tensor flip(const Tensor& x, const std::vector<int>& dims);
// As torch.gather: y[i][j] = x[i][index[i][j]] for dim 1; index (integers) has as many dimensions as x. An
// index out of range is an error on the CPU and gives NaN on a GPU.
Tensor gather(const Tensor& x, int dim, const Tensor& index);

Tensor lower_triangle(int64_t n, DType dtype, Device device);  // [n, n], 1 on and below the diagonal, else 0

// Linear algebra.
Tensor matmul(const Tensor& a, const Tensor& b);  // [..., M, K] x [..., K, N], leading dimensions broadcast
// x weight^T + bias + residual for x [..., in], weight [out, in], bias [out] or undefined, and a residual of
// the result's shape or undefined. With bf16 inputs the residual may be f32, and then the result is f32.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Tensor& residual = {});
// residual + f(x w1^T + b1) w2^T + b2 for x [..., dim], w1 [hidden, dim], w2 [out, hidden]; residual as for
// linear. Saves only x and one tensor [..., hidden] for backward.
enum class Activation { gelu, relu };
inline std::vector<Choice<Activation>> choices_of(Activation) {
  return {{"gelu", Activation::gelu}, {"relu", Activation::relu}};
}
Tensor mlp(const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2,
           const Tensor& residual = {}, Activation f = Activation::gelu);

// Normalisation and probabilities, over the last dimension.
Tensor softmax(const Tensor& x);
Tensor log_softmax(const Tensor& x);
Tensor clipped_softmax(const Tensor& x, double gamma,
                       double zeta);  // clip((zeta - gamma) softmax(x) + gamma, 0, 1)
// x [..., dim], weight and bias [dim], which may be f32 with a bf16 x. The result has x's dtype; `result` may
// ask for bf16 with an f32 x, which is rounded once.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  std::optional<DType> result = {});
// x / sqrt(mean(x^2) + eps) weight (Zhang & Sennrich 2019); dtypes as for layer_norm.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, std::optional<DType> result = {});

// Normalisation of x [B, C, ...] over positions: (x - mean) / sqrt(variance + eps) weight + bias with the
// biased variance; weight and bias [C] may be undefined, or f32 with a bf16 x. The result has x's dtype.

// Running statistics of batch norm: mean and (unbiased) variance f32 [C], and the number of batches, i64 [],
// which may be undefined. Mean and variance <- (1 - momentum) running + momentum batch.
struct RunningStatistics {
  Tensor mean = {}, variance = {}, batches = {};
  double momentum = 0.1;
};
// Training: normalises with each channel's mean and variance over this batch, which needs more than one value
// per channel; every call updates `running` in place if it is defined. With `ranks` the statistics are over
// the batches of all ranks (synchronised batch norm): same shapes, and all ranks call this and later backward
// in the same order. Evaluation: uses the running statistics and does not change them (Ioffe & Szegedy 2015).
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const RunningStatistics& running,
                  bool training, double eps = 1e-5, distributed::Communicator* ranks = nullptr);
// Per sample, over `groups` groups of adjacent channels (Wu & He 2018).
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// Per sample and channel (Ulyanov et al. 2016).
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);

// Losses: the mean over the rows that are not ignored; logits [rows, classes].
// labels [rows] of any integer type: (1 - e) nll + e mean_j(-log p_j) with e = label_smoothing.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double label_smoothing = 0,
                     int64_t ignore_index = -1);
Tensor soft_cross_entropy(const Tensor& logits, const Tensor& targets);  // targets [rows, classes]
// Cross-entropy of logits [B, classes, h, w] upsampled bilinearly to the size of labels [B, H, W] (integers):
// the mean over pixels that are not ignored. Does not store full-size logits. f32 for bf16 logits.
Tensor upsample_cross_entropy(const Tensor& logits, const Tensor& labels, int64_t ignore_index = 255);
// cross_entropy(linear(x, weight, bias), labels) without storing the logits of all classes: x [rows, dim],
// weight [classes, dim], bias [classes] or undefined. The sum over the rows is divided by max(count, 1), so
// that the losses of parts of a batch add up to its mean. `count` is one number on x's device; undefined: the
// number of rows that are not ignored.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& labels,
                            int64_t ignore_index = -1, const Tensor& count = {});
// log p(label) of every row in the compute dtype, [rows]; 0 for ignored rows. No autograd.
Tensor linear_log_prob(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& labels,
                       int64_t ignore_index = -1);
// Of integer labels [...], without host synchronisation: the number not ignored, f32 []; labels from `begin`
// up to `end`, minus `begin`, others -1; columns in an adaptive softmax's head (-1: ignored, `classes`: no
// class), where cutoffs[0] + i stands for the classes from cutoffs[i] to the next cutoff or `classes`.
Tensor label_count(const Tensor& labels, int64_t ignore_index = -1);
Tensor labels_within(const Tensor& labels, int64_t begin, int64_t end, int64_t ignore_index = -1);
Tensor head_labels(const Tensor& labels, const std::vector<int64_t>& cutoffs, int64_t classes,
                   int64_t ignore_index = -1);

// Fused attention on packed projections qkv [B, N, P, H, D]: P = 3 (q, k, v) or, symmetric (keys serve as
// queries), P = 2 (k, v). The result is [B, N, H * D], heads merged. No N x N tensor is stored.
struct AttentionOptions {
  double scale = 0;  // factor of the scores; 0: 1 / sqrt(D)
  bool causal = false;
  // Clipped softmax (Bondarenko et al. 2023): probabilities clip((zeta - gamma) p + gamma, 0, 1); 0 and 1
  // give plain softmax.
  double gamma = 0, zeta = 1;
};
Tensor attention(const Tensor& qkv, const AttentionOptions& options = {});
// softmax(scale q k^T)^T x: for every key, the sum over queries of their rows in x [B, N, H * D], weighted by
// the attention that the key gets. qkx [B, N, 3 (q, k, x), H, D]; plain softmax only.
Tensor attention_transposed(const Tensor& qkx, const AttentionOptions& options = {});
// Attention to other rows, softmax(scale q k^T + mask) v: q [B, M, H, D] and kv [B, N, 2 (k, v), H, D] give
// [B, M, H * D]; no M x N tensor is stored. mask (optional, without gradient) broadcasts to [B, M, N] and is
// the same for all heads, in f32 (f64 with f64): -inf where a query must not look. A query that sees no key
// gives 0. scale 0: 1 / sqrt(D).
Tensor cross_attention(const Tensor& q, const Tensor& kv, const Tensor& mask = {}, double scale = 0);

// RPC-Attention (Teo & Nguyen 2024): n iterations of principal attention pursuit on the keys. kv [B, N, 2 (k,
// v), H, D], where keys serve as queries, or [B, N, 3 (q, k, v), H, D] (appendix E.10); result [B, N, H * D].
// Defaults follow the published code; the enums select where it differs from the paper.
struct RpcOptions {
  int iterations = 4;
  double lambda = 4;
  double scale = 0;  // factor of the scores, not negative; 0: 1 / sqrt(D)
  bool causal = false;
  enum class Threshold {
    product,  // tau = lambda mu
    quotient  // tau = lambda / mu
  } threshold = Threshold::product;
  enum class MuWidth { model, head } mu_width = MuWidth::model;     // mu = N C / 4 |K|_1 or N D / 4 |K|_1
  enum class DualSign { minus, plus } dual_sign = DualSign::minus;  // Z = K - S - U or K - S + U
  // The keys from which a token's mu is computed. window: all N of them, as published, so that mu leaks one
  // number about later tokens. prefix: those up to the token itself, mu_i = (i + 1) C / 4 |K_0..i|_1, which
  // keeps causal attention causal.
  enum class MuScope { window, prefix } mu_scope = MuScope::window;
  bool detach_mu = false;
  bool shrink_every_iteration = true;  // false: S = X except in the last iteration
};
inline std::vector<Choice<RpcOptions::Threshold>> choices_of(RpcOptions::Threshold) {
  return {{"product", RpcOptions::Threshold::product, "tau = lambda mu, the published code"},
          {"quotient", RpcOptions::Threshold::quotient, "lambda / mu"}};
}
inline std::vector<Choice<RpcOptions::MuWidth>> choices_of(RpcOptions::MuWidth) {
  return {{"model", RpcOptions::MuWidth::model}, {"head", RpcOptions::MuWidth::head}};
}
inline std::vector<Choice<RpcOptions::DualSign>> choices_of(RpcOptions::DualSign) {
  return {{"minus", RpcOptions::DualSign::minus, "the published code"},
          {"plus", RpcOptions::DualSign::plus, "the exact minimiser"}};
}
inline std::vector<Choice<RpcOptions::MuScope>> choices_of(RpcOptions::MuScope) {
  return {{"prefix", RpcOptions::MuScope::prefix, "of the tokens seen so far"},
          {"window", RpcOptions::MuScope::window,
           "of the whole window, which tells every token one number about those after it"}};
}
// mu: a constant [B, H], or undefined (computed from the keys of each batch and head).
Tensor rpc_attention(const Tensor& kv, const RpcOptions& options = {}, const Tensor& mu = {});
// Z of the last iteration [B, H, N, D] in the compute dtype. The output is softmax(scale Z Z^T) V or, with
// separate queries, softmax(scale Q Z^T) V.
Tensor rpc_last_keys(const Tensor& kv, const RpcOptions& options = {});

// Low-rank and sparse. U max(sigma - tau, 0) V^T for every matrix of a [..., M, N]; tau >= 0 is a number, or
// a tensor that expands to the leading dimensions and has a gradient.
Tensor singular_value_threshold(const Tensor& a, double tau);
Tensor singular_value_threshold(const Tensor& a, const Tensor& tau);

// Regularisation. Element i is kept if uniform word i of Philox stream (seed, stream) is below 1 - p, and
// scaled by 1 / (1 - p). Kernels read `counter` (i64 [2] on x's device; undefined: zeros) in forward and
// backward, so that a captured graph draws new numbers when it changes between replays: [0] is added to the
// stream, [1] is the index of the batch within its step (see draws_of).
Tensor dropout(const Tensor& x, double p, uint64_t seed, uint64_t stream, const Tensor& counter = {});
// residual + x, with whole samples (dimension 0) of x dropped with probability p, others scaled 1 / (1 - p).
// residual: undefined (zeros), of x's shape and dtype, or f32 with bf16 x, and then so is the result.
Tensor drop_path(const Tensor& x, double p, uint64_t seed, uint64_t stream, const Tensor& counter = {},
                 const Tensor& residual = {});
// residual + drop_path(branch), and its layer norm in the dtype of branch; on a GPU one kernel in each
// direction. weight and bias [dim] are f32 there.
struct SumAndNorm {
  Tensor sum, norm;
};
struct NormParameters {
  Tensor weight, bias;
  double eps = 1e-6;
};
struct DropOptions {
  double p = 0;
  uint64_t seed = 0, stream = 0;
  Tensor counter = {};
};
SumAndNorm add_norm(const Tensor& branch, const Tensor& residual, const NormParameters& norm,
                    const DropOptions& path = {});
// The MLP of a pre-norm block, from sum to sum: with s and n of add_norm(branch, residual, before, path),
// add_norm(mlp(n), s, after, mlp_path). On a GPU, with bf16 rows narrow enough for the MLP's kernel and a
// residual and norms in f32, the forward pass is one kernel, which does not round mlp(n) to bf16.
SumAndNorm residual_mlp(const Tensor& branch, const Tensor& residual, const NormParameters& before,
                        const DropOptions& path, const Tensor& w1, const Tensor& b1, const Tensor& w2,
                        const Tensor& b2, Activation f, const NormParameters& after,
                        const DropOptions& mlp_path);

// Convolutions and pooling of x [B, C, H, W]. The number of windows along each dimension is floor((size + 2
// padding - dilation (kernel - 1) - 1) / stride) + 1.

// A value for the height and one for the width, or one for both.
struct Pair {
  int64_t h, w;
  Pair(int64_t both) : h(both), w(both) {}
  Pair(int64_t height, int64_t width) : h(height), w(width) {}
};
struct ConvOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
};
// Cross-correlation with zero padding: weight [out, C / groups, kernel height, kernel width], bias [out] or
// undefined; output channel o sees the channels of group o groups / out. All have the same dtype.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {});
// The maximum of each window within the image; the first of ties gets the gradient, a NaN counts as the
// largest. Padding is at most half the kernel.
struct MaxPoolOptions {
  Pair kernel;
  Pair stride = 0;  // 0: the kernel size
  Pair padding = 0, dilation = 1;
};
Tensor max_pool2d(const Tensor& x, const MaxPoolOptions& options);
// The mean of each window; padding counts unless count_include_pad is false. Padding is at most half the
// kernel.
struct AvgPoolOptions {
  Pair kernel;
  Pair stride = 0;  // 0: the kernel size
  Pair padding = 0;
  bool count_include_pad = true;
};
Tensor avg_pool2d(const Tensor& x, const AvgPoolOptions& options);

// Images and tokens.

// (image / 255 - mean) / std of 8-bit images u8 [B, C, H, W], C at most 4, with one mean and std per channel;
// the result has `dtype`. Random erasing (timm's mode "pixel"): box erased[b] (i32 [B, 4]: x, y, width,
// height) of image b is filled with standard normal numbers of a Philox stream, counted as for dropout. Then
// mixing, with mix (f32 [B, 6]: w, x, y, width, height, p): in the box, image b becomes w times itself plus 1
// - w times image p. Mixup uses the whole image as box, CutMix w = 0. With a patch, which must tile the
// images, the result is not [B, C, H, W] but [B, patches in row order, C * patch * patch].
Tensor normalise_images(const Tensor& images, const std::vector<double>& mean, const std::vector<double>& std,
                        DType dtype = DType::f32, const Tensor& erased = {}, const Tensor& mix = {},
                        uint64_t seed = 0, uint64_t stream = 0, const Tensor& counter = {},
                        int64_t patch = 0);
// images [B, C, H, W], weight [dim, C, patch, patch], bias [dim] give [B, patches in row order, dim]
Tensor patchify(const Tensor& images, const Tensor& weight, const Tensor& bias);
Tensor embedding(const Tensor& ids,      // i32 or i64 [...]
                 const Tensor& weight);  // [vocab, dim]; the result is [..., dim]
// [B, C, h, w] to [B, C, H, W] with align_corners = false, no antialiasing.
Tensor upsample_bilinear(const Tensor& x, int64_t height, int64_t width);
// The class of every pixel, i64 [B, height, width]: argmax of the upsampled logits [B, classes, h, w], first
// of ties. Does not store full-size logits. No autograd.
Tensor upsample_argmax(const Tensor& logits, int64_t height, int64_t width);

}  // namespace pursuit
