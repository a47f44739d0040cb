#pragma once
#include <optional>
#include <vector>

#include "engine/base/choice.h"
#include "engine/core/tensor.h"

// Every differentiable function of the engine. Elementwise and binary ones broadcast by NumPy's rules; all
// take f32, bf16 and (on the CPU) f64 tensors, strided as they come. The inputs of a call are of one dtype,
// but f32 may stand beside bf16 in binary arithmetic, which then gives f32, and where linear, mlp and
// layer_norm say so. Every gradient has its input's dtype. Each is one file in engine/ops.
namespace pursuit {

namespace distributed {
class Communicator;
}

// Arithmetic. Scalars take the tensor's dtype.
Tensor add(const Tensor& a, const Tensor& b);
void add_to(const Tensor& sum, const Tensor& x);  // sum <- sum + x, off the tape; x broadcasts
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor affine(const Tensor& x, double scale, double shift);  // scale x + shift
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return affine(x, -1, 0); }
inline Tensor operator+(const Tensor& x, double c) { return affine(x, 1, c); }
inline Tensor operator-(const Tensor& x, double c) { return affine(x, 1, -c); }
inline Tensor operator*(const Tensor& x, double c) { return affine(x, c, 0); }
inline Tensor operator*(double c, const Tensor& x) { return affine(x, c, 0); }
inline Tensor operator/(const Tensor& x, double c) { return affine(x, 1 / c, 0); }
inline Tensor operator+(double c, const Tensor& x) { return affine(x, 1, c); }
inline Tensor operator-(double c, const Tensor& x) { return affine(x, -1, c); }
inline Tensor operator/(double c, const Tensor& x) { return div(full({}, c, x.dtype(), x.device()), x); }
// The handle is bound to the result; no values are overwritten, other handles keep theirs.
template <class T> Tensor& operator+=(Tensor& x, const T& other) { return x = x + other; }
template <class T> Tensor& operator-=(Tensor& x, const T& other) { return x = x - other; }
template <class T> Tensor& operator*=(Tensor& x, const T& other) { return x = x * other; }
template <class T> Tensor& operator/=(Tensor& x, const T& other) { return x = x / other; }

// Comparisons, element by element with broadcasting: u8, 1 where they hold. Both of one type, of any; no
// gradient.
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
Tensor pow(const Tensor& x, double exponent);  // NaN of a negative x where the exponent is no whole number
Tensor pow(const Tensor& x, const Tensor& exponent);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x);                      // x Phi(x), by erf
Tensor silu(const Tensor& x);                      // x sigmoid(x)
Tensor maximum(const Tensor& a, const Tensor& b);  // broadcast; the gradient of equals goes in halves
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor lerp(const Tensor& a, const Tensor& b, double weight);  // a + weight (b - a); broadcast
// a where the condition (integers) is not 0, else b, of one type; all broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor clamp(const Tensor& x, double lo, double hi);        // no gradient where it clips
Tensor soft_threshold(const Tensor& x, const Tensor& tau);  // sign(x) max(|x| - tau, 0); tau broadcasts

// Reductions.
Tensor sum(const Tensor& x, const std::vector<int>& dims = {}, bool keep = false);  // no dims: all of them
Tensor mean(const Tensor& x, const std::vector<int>& dims = {}, bool keep = false);
Tensor sum_to(const Tensor& x, const Shape& shape);  // undoes broadcasting from `shape`
Tensor argmax(const Tensor& x);  // over the last dimension, i64, first of equals; no gradient
// The largest (smallest) numbers along a dimension and where they are, i64; of equals the first, which gets
// the gradient. A NaN counts as both.
struct Extremes {
  Tensor values, indices;
};
Extremes max_along(const Tensor& x, int dim, bool keep = false);
Extremes min_along(const Tensor& x, int dim, bool keep = false);
Tensor cumsum(const Tensor& x, int dim);

// Layout. Views where possible, see Tensor's methods.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor permute(const Tensor& x, const std::vector<int>& dims);
Tensor slice(const Tensor& x, int dim, int64_t begin, int64_t end);
Tensor expand(const Tensor& x, const Shape& shape);
Tensor contiguous(const Tensor& x);
Tensor cast(const Tensor& x, DType dtype);
Tensor to_device(const Tensor& x, Device device);
Tensor concat(const std::vector<Tensor>& parts, int dim);
Tensor stack(const std::vector<Tensor>& parts, int dim);  // a new dimension

Tensor flip(const Tensor& x, const std::vector<int>& dims);
// PyTorch's: y[i][j] = x[i][index[i][j]] for dim 1; index (integers) has as many dimensions as x. On the CPU
// an index out of range is an error, on a GPU it gives NaN.
Tensor gather(const Tensor& x, int dim, const Tensor& index);

Tensor lower_triangle(int64_t n, DType dtype, Device device);  // [n, n], 1 on and below the diagonal, else 0

// Linear algebra.
Tensor matmul(const Tensor& a, const Tensor& b);  // [..., M, K] x [..., K, N], leading dimensions broadcast
// x [..., in], weight [out, in], bias [out] or undefined, residual like the result or undefined:
// x weight^T + bias + residual. Beside bf16 the residual may be f32, and then so is the result.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Tensor& residual = {});
// residual + f(x w1^T + b1) w2^T + b2, keeping only x and one tensor [..., hidden] for backward. x [...,
// dim], w1 [hidden, dim], w2 [out, hidden]; residual as for linear.
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
// x [..., dim], weight and bias [dim], which may be f32 beside a bf16 x. The result has x's dtype, or is bf16
// of an f32 x, rounded once.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  std::optional<DType> result = {});
// x / sqrt(mean(x^2) + eps) weight (Zhang & Sennrich 2019); types as layer_norm's.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, std::optional<DType> result = {});

// Normalisation over positions: (x - mean) / sqrt(variance + eps) weight + bias for x [B, C, ...], the biased
// variance, weight and bias [C], which may be f32 beside a bf16 x, or undefined. The result has x's dtype.

// What batch norm keeps of the batches it trained on: mean and (unbiased) variance f32 [C], and their number,
// i64 [], which may be undefined. Each moves by `momentum` of the way to the batch's.
struct RunningStatistics {
  Tensor mean = {}, variance = {}, batches = {};
  double momentum = 0.1;
};
// Training: mean and variance of each channel of this batch, of more than one number a channel; `running` is
// updated in place by every call, where it is defined. With `ranks` they are those of the batches of all
// ranks, of one shape, which all call this, and then backward, at the same place. Else the running ones,
// which are not changed (Ioffe & Szegedy 2015).
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const RunningStatistics& running,
                  bool training, double eps = 1e-5, distributed::Communicator* ranks = nullptr);
// Of each sample, over `groups` groups of neighbouring channels (Wu & He 2018).
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// Of each sample and channel (Ulyanov et al. 2016).
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);

// Losses, mean over the rows (not ignored). logits [rows, classes].
// Labels, of any integer type, [rows]: (1 - e) nll + e mean_j(-log p_j) with e = label_smoothing.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double label_smoothing = 0,
                     int64_t ignore_index = -1);
Tensor soft_cross_entropy(const Tensor& logits, const Tensor& targets);  // targets [rows, classes]
// Bilinear upsampling of logits [B, classes, h, w] to the size of labels [B, H, W] (integers) and their
// cross-entropy, the mean over pixels that are not ignored, without logits of the full size. f32 for bf16.
Tensor upsample_cross_entropy(const Tensor& logits, const Tensor& labels, int64_t ignore_index = 255);
// cross_entropy(linear(x, weight, bias), labels) without the logits of all classes in memory: x [rows, dim],
// weight [classes, dim], bias [classes] or undefined. `count`, one number beside x or undefined (the rows
// that are not ignored), is what the sum over the rows is divided by, so that parts of a batch add up to its
// mean.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& labels,
                            int64_t ignore_index = -1, const Tensor& count = {});
// log p(label) of every row in the compute type, [rows]; 0 where ignored. Off the tape.
Tensor linear_log_prob(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& labels,
                       int64_t ignore_index = -1);
// Integers [...] on any device, none read by the host: how many labels are not ignored, f32 []; labels from
// `begin` up to `end` counted from it, others -1; columns in the head of an adaptive softmax (-1: ignored,
// `classes`: no class), cutoffs[0] + i standing for those from cutoffs[i] to the next cutoff or `classes`.
Tensor label_count(const Tensor& labels, int64_t ignore_index = -1);
Tensor labels_within(const Tensor& labels, int64_t begin, int64_t end, int64_t ignore_index = -1);
Tensor head_labels(const Tensor& labels, const std::vector<int64_t>& cutoffs, int64_t classes,
                   int64_t ignore_index = -1);

// Attention over packed projections: qkv [B, N, P, H, D] with P = 3 (q, k, v) or, symmetric (keys as
// queries), P = 2 (k, v); the result is [B, N, H * D], heads merged. No N x N tensor is kept.
struct AttentionOptions {
  double scale = 0;  // of the scores; 0: 1 / sqrt(D)
  bool causal = false;
  // Clipped softmax (Bondarenko et al. 2023): probabilities clip((zeta - gamma) p + gamma, 0, 1); 0 and 1:
  // plain.
  double gamma = 0, zeta = 1;
};
Tensor attention(const Tensor& qkv, const AttentionOptions& options = {});

// RPC-Attention (Teo & Nguyen 2024): n iterations of principal attention pursuit on the keys. kv [B, N, 2 (k,
// v), H, D], whose keys are the queries too, or [B, N, 3 (q, k, v), H, D] (the paper's E.10); result [B, N,
// H * D]. Defaults are the published code's; the switches are those of its differences to the paper.
struct RpcOptions {
  int iterations = 4;
  double lambda = 4;
  double scale = 0;  // of the scores; 0: 1 / sqrt(D)
  bool causal = false;
  enum class Threshold {
    product,
    quotient
  } threshold = Threshold::product;                                 // tau = lambda mu or lambda / mu
  enum class MuWidth { model, head } mu_width = MuWidth::model;     // mu = N C / 4 |K|_1 or N D / 4 |K|_1
  enum class DualSign { minus, plus } dual_sign = DualSign::minus;  // of U in Z = K - S -/+ U
  // The keys that a token's mu is made of: all N of them, as published, which shows every token one number of
  // those after it; or those up to its own, mu_i = (i + 1) C / 4 |K_0..i|_1, which keeps causal attention
  // causal.
  enum class MuScope { window, prefix } mu_scope = MuScope::window;
  bool detach_mu = false;
  bool shrink_every_iteration = true;  // false: S = X in all but the last
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
// mu: undefined (computed from the keys of each batch and head) or a constant [B, H].
Tensor rpc_attention(const Tensor& kv, const RpcOptions& options = {}, const Tensor& mu = {});
// Z of the last iteration [B, H, N, D] in the compute type; the output is softmax(scale Z Z^T) V, with
// queries softmax(scale Q Z^T) V.
Tensor rpc_last_keys(const Tensor& kv, const RpcOptions& options = {});

// Low rank and sparse. U max(sigma - tau, 0) V^T for every matrix of a [..., M, N]; tau >= 0 for all of them,
// or a tensor that expands to the leading dimensions, with a gradient of its own.
Tensor singular_value_threshold(const Tensor& a, double tau);
Tensor singular_value_threshold(const Tensor& a, const Tensor& tau);

// Regularisation. Element i is kept where word i of Philox stream (seed, stream) is below 1 - p, and scaled
// 1/(1-p). `counter` (may be undefined: zeros), i64 [2] on x's device, is read by the kernels, forward and
// backward, so that what is recorded as a graph draws anew where it is changed between the runs: [0] is added
// to the stream, [1] counts the batches of a step, each of which draws words of its own (draws_of).
Tensor dropout(const Tensor& x, double p, uint64_t seed, uint64_t stream, const Tensor& counter = {});
// residual + x, where whole samples of x (dimension 0) are kept or dropped. The residual may be undefined: zeros;
// it has x's shape and dtype, or is f32 beside bf16, as then the result.
Tensor drop_path(const Tensor& x, double p, uint64_t seed, uint64_t stream, const Tensor& counter = {},
                 const Tensor& residual = {});

// Convolutions and pooling of x [B, C, H, W]. A window is a kernel's taps; along each dimension there are
// floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1 of them.

// A number for the height and one for the width, or one for both.
struct Pair {
  int64_t h, w;
  Pair(int64_t both) : h(both), w(both) {}
  Pair(int64_t height, int64_t width) : h(height), w(width) {}
};
struct ConvOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
};
// Cross-correlation with zeros around the picture: weight [out, C / groups, kernel height, kernel width],
// bias [out] or undefined; output channel o sees the channels of group o groups / out. All of one dtype.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {});
// The largest number of each window, of those within the picture; of equals the first gets the gradient. A
// NaN counts as the largest. Padding is at most half of the kernel.
struct MaxPoolOptions {
  Pair kernel;
  Pair stride = 0;  // 0: the kernel
  Pair padding = 0, dilation = 1;
};
Tensor max_pool2d(const Tensor& x, const MaxPoolOptions& options);
// The mean of each window, whose zeros beside the picture count or, without count_include_pad, do not.
// Padding is at most half of the kernel.
struct AvgPoolOptions {
  Pair kernel;
  Pair stride = 0;  // 0: the kernel
  Pair padding = 0;
  bool count_include_pad = true;
};
Tensor avg_pool2d(const Tensor& x, const AvgPoolOptions& options);

// Pictures and tokens.

// (image / 255 - mean) / std of 8-bit pictures u8 [B, C, H, W], C at most 4, one mean and std a channel, in
// `dtype`. In place of the pixels of picture b's box erased[b] (i32 [B, 4]: x, y, width, height) standard
// normal numbers (random erasing's mode "pixel" of timm) of a Philox stream counted as dropout's. Then, with
// mix (f32 [B, 6]: w, x, y, width, height, p), the pixels of picture b in its box become w times their own
// plus 1 - w times those of picture p: mixup with the whole picture as box, CutMix with w = 0.
Tensor normalise_images(const Tensor& images, const std::vector<double>& mean, const std::vector<double>& std,
                        DType dtype = DType::f32, const Tensor& erased = {}, const Tensor& mix = {},
                        uint64_t seed = 0, uint64_t stream = 0, const Tensor& counter = {});
// images [B, C, H, W], weight [dim, C, patch, patch], bias [dim]: [B, patches row by row, dim]
Tensor patchify(const Tensor& images, const Tensor& weight, const Tensor& bias);
Tensor embedding(const Tensor& ids,
                 const Tensor& weight);  // ids i32 or i64 [...], weight [vocab, dim]: [..., dim]
// [B, C, h, w] to [B, C, H, W], align_corners false, no antialiasing.
Tensor upsample_bilinear(const Tensor& x, int64_t height, int64_t width);
// The class of every pixel, i64 [B, height, width]: the largest of the upsampled logits [B, classes, h, w],
// first of equals. Off the tape, without logits of the full size.
Tensor upsample_argmax(const Tensor& logits, int64_t height, int64_t width);

}  // namespace pursuit
