#include <memory>

#include "apps/bench/workload.h"
#include "engine/base/error.h"
#include "engine/base/random.h"
#include "engine/ops.h"
#include "nn/optim.h"

namespace pursuit::bench {

namespace {

constexpr uint64_t seed = 1;
constexpr int64_t heads = 3, tokens = 197, head_dim = 64, dim = heads * head_dim;  // DeiT-tiny's

// Near the median singular value of a 197 x 64 matrix of standard normal numbers: half of them survive.
constexpr double svt_threshold = 13.5;

Tensor random_leaf(const Shape& shape, DType dtype, Device device, uint64_t stream, double std = 1) {
  Tensor t = normal(shape, 0, std, seed, stream).to(dtype).to(device);
  t.requires_grad();
  return t;
}

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

Step forward(std::vector<Tensor> inputs, Function f) {
  return {[inputs, f] {
    NoGrad off;
    f(inputs);
  }};
}

// The function and its gradients with respect to all of `leaves`, for a random dLoss/dOutput.
Step forward_backward(std::vector<Tensor> leaves, Function f) {
  const Tensor y = f(leaves);
  const Tensor seed_grad = normal(y.shape(), 0, 1, seed, 99).to(y.dtype()).to(y.device());
  return {[leaves, f, seed_grad]() mutable {
    for (Tensor& t : leaves) t.zero_grad();
    f(leaves).backward(seed_grad);
  }};
}

using Run = Step (*)(std::vector<Tensor>, Function);

Step packed_attention(int64_t batch, DType dtype, Device device, int64_t parts, Run run = forward_backward,
                      int64_t length = tokens, const AttentionOptions& options = {}) {
  return run({random_leaf({batch, length, parts, heads, head_dim}, dtype, device, 1)},
             [options](const std::vector<Tensor>& x) { return attention(x[0], options); });
}

// A single matrix product of a DeiT-tiny block.
Workload product(const std::string& name, int64_t in, int64_t out) {
  const std::string what =
      "the product alone, 197 tokens, " + std::to_string(in) + " to " + std::to_string(out);
  return {Workload::Group::op, name, what, "images", 8, true, [=](int64_t batch, DType dtype, Device device) {
            return forward({random_leaf({batch, tokens, in}, dtype, device, 1),
                            random_leaf({out, in}, dtype, device, 2, 0.02)},
                           [](const std::vector<Tensor>& x) { return linear(x[0], x[1], {}); });
          }};
}

// Keys of standard deviation 2: with lambda 4 and 3 heads tau = 4 * 3 / (4 mean|K|) = 1.9, which a third of
// the entries exceeds. Unit keys or fresh weights would leave the sparse part nearly empty.
Step rpc(int64_t batch, DType dtype, Device device, Run run = forward_backward) {
  const Tensor keys = normal({batch, tokens, 1, heads, head_dim}, 0, 2, seed, 1);
  const Tensor values = normal({batch, tokens, 1, heads, head_dim}, 0, 1, seed, 2);
  Tensor kv = concat({keys, values}, 2).to(dtype).to(device);
  kv.requires_grad();
  return run({kv}, [](const std::vector<Tensor>& x) { return rpc_attention(x[0]); });
}

Step svt(int64_t batch, DType dtype, Device device) {
  const Tensor a = normal({batch, tokens, head_dim}, 0, 1, seed, 1).to(dtype).to(device);
  return {[a] { singular_value_threshold(a, svt_threshold); }};
}

Step svt_grad(int64_t batch, DType dtype, Device device) {
  return forward_backward(
      {random_leaf({batch, tokens, head_dim}, dtype, device, 1)},
      [](const std::vector<Tensor>& x) { return singular_value_threshold(x[0], svt_threshold); });
}

Step norm(int64_t batch, DType dtype, Device device) {
  return forward_backward({random_leaf({batch, tokens, dim}, dtype, device, 1),
                           random_leaf({dim}, dtype, device, 2), random_leaf({dim}, dtype, device, 3)},
                          [](const std::vector<Tensor>& x) { return layer_norm(x[0], x[1], x[2], 1e-6); });
}

Step feed_forward(int64_t batch, DType dtype, Device device) {
  constexpr int64_t hidden = 4 * dim;
  return forward_backward(
      {random_leaf({batch, tokens, dim}, dtype, device, 1),
       random_leaf({hidden, dim}, dtype, device, 2, 0.02), random_leaf({hidden}, dtype, device, 3, 0.02),
       random_leaf({dim, hidden}, dtype, device, 4, 0.02), random_leaf({dim}, dtype, device, 5, 0.02)},
      [](const std::vector<Tensor>& x) { return mlp(x[0], x[1], x[2], x[3], x[4], x[0]); });
}

// Logits of 150 classes for the patches of pictures of 512 pixels, as a decoder of tokens gives them.
Step upsampled_loss(int64_t batch, DType dtype, Device device) {
  constexpr int64_t classes = 150, size = 512, side = size / 16;
  const Tensor labels = uniform({batch, size, size}, 0, classes, seed, 2).to(DType::i64).to(device);
  return forward_backward({random_leaf({batch, side, side, classes}, dtype, device, 1)},
                          [labels](const std::vector<Tensor>& x) {
                            return upsample_cross_entropy(x[0].permute({0, 3, 1, 2}), labels);
                          });
}

// A square kernel that keeps the picture's size; depthwise, or all channels to as many.
Workload convolution(const std::string& name, int64_t channels, int64_t size, int64_t kernel,
                     bool depthwise) {
  const int64_t seen = depthwise ? 1 : channels;
  const std::string what = std::to_string(kernel) + " x " + std::to_string(kernel) +
                           (depthwise ? " depthwise" : "") + " convolution of " + std::to_string(channels) +
                           " channels, " + std::to_string(size) + " pixels, with gradients";
  const auto make = [=](int64_t batch, DType dtype, Device device) {
    const ConvOptions options{.padding = kernel / 2, .groups = depthwise ? channels : 1};
    return forward_backward(
        {random_leaf({batch, channels, size, size}, dtype, device, 1),
         random_leaf({channels, seen, kernel, kernel}, dtype, device, 2, 0.02),
         random_leaf({channels}, dtype, device, 3, 0.02)},
        [options](const std::vector<Tensor>& x) { return conv2d(x[0], x[1], x[2], options); });
  };
  return with_factors(Workload::Factors::f32, {Workload::Group::op, name, what, "images", 8, true, make});
}

struct AdamWStep {
  static constexpr int64_t width = 8;
  Tensor weight;
  nn::FlatParameters flat;
  nn::Optimizer optimizer;

  AdamWStep(int64_t parameters, Device device)
      : weight(random_leaf({parameters / width, width}, DType::f32, device, 1)),
        flat({{"weight", &weight}}, nn::decays_by_timm),
        optimizer(flat, {}) {
    flat.finish_grad();
    copy_values(flat.grads, normal(flat.grads.shape(), 0, 1e-3, seed, 2));
  }
  void operator()() { optimizer.step(5e-4); }
};

void check_parameters(const char* name, int64_t parameters) {
  if (parameters % AdamWStep::width)
    fail("bench", "got --batch " + std::to_string(parameters) + ", need a multiple of " +
                      std::to_string(AdamWStep::width) + " parameters for " + name);
}

// For each parameter AdamW reads weight, gradient and two moments and writes all but the gradient: seven f32
// numbers. A copy of 3.5 reads and writes as many bytes.
Step copy(int64_t parameters, DType, Device device) {
  check_parameters("copy", parameters);
  const Tensor from = uniform({parameters / 2 * 7}, -1, 1, seed, 1).to(device), to = empty_like(from);
  return {[from, to] { copy_values(to, from); }};
}

Step adamw(int64_t parameters, DType, Device device) {
  check_parameters("adamw", parameters);
  auto step = std::make_shared<AdamWStep>(parameters, device);
  return {[step] { (*step)(); }};
}

}  // namespace

std::vector<Workload> operator_workloads() {
  constexpr auto op = Workload::Group::op;
  constexpr auto f32 = Workload::Factors::f32;
  return {
      {op, "attention-softmax", "attention, 3 heads, 197 tokens, width 64, with gradients", "images", 8, true,
       [](int64_t b, DType t, Device d) { return packed_attention(b, t, d, 3); }},
      {op, "attention-symmetric", "the same with keys as queries", "images", 8, true,
       [](int64_t b, DType t, Device d) { return packed_attention(b, t, d, 2); }},
      {op, "attention-forward", "attention of that shape, forward alone", "images", 8, true,
       [](int64_t b, DType t, Device d) { return packed_attention(b, t, d, 3, forward); }},
      {op, "attention-1025", "attention, 3 heads, 1025 tokens, width 64, with gradients", "images", 2, true,
       [](int64_t b, DType t, Device d) { return packed_attention(b, t, d, 3, forward_backward, 1025); }},
      {op, "attention-causal-1024", "the same, causal, 1024 tokens", "images", 2, true,
       [](int64_t b, DType t, Device d) {
         return packed_attention(b, t, d, 3, forward_backward, 1024, {.causal = true});
       }},
      product("product-qkv", dim, 3 * dim),
      product("product-fc1", dim, 4 * dim),
      product("product-fc2", 4 * dim, dim),
      with_factors(f32, {op, "rpc-operator", "RPC-Attention n=4 lambda=4, same shape, with gradients",
                         "images", 8, true, [](int64_t b, DType t, Device d) { return rpc(b, t, d); }}),
      with_factors(f32, {op, "rpc-forward", "the same, forward alone", "images", 8, true,
                         [](int64_t b, DType t, Device d) { return rpc(b, t, d, forward); }}),
      {op, "svt", "singular value thresholding of 197 x 64 matrices", "matrices", 256, false, svt},
      {op, "svt-grad", "the same with its gradient", "matrices", 256, false, svt_grad},
      {op, "layer-norm", "layer norm of 197 tokens of width 192, with gradients", "images", 32, true, norm},
      {op, "mlp", "residual + fc2(gelu(fc1(x))), 197 tokens, 192-768-192, with gradients", "images", 8, true,
       feed_forward},
      {op, "upsample-cross-entropy",
       "cross-entropy of 150 classes, logits upsampled from 32 x 32 to 512 x 512", "images", 2, true,
       upsampled_loss},
      // ResNet-18's four stages, and ConvNeXt-tiny's.
      convolution("conv-3x3-56", 64, 56, 3, false),
      convolution("conv-3x3-28", 128, 28, 3, false),
      convolution("conv-3x3-14", 256, 14, 3, false),
      convolution("conv-3x3-7", 512, 7, 3, false),
      convolution("conv-depthwise-56", 96, 56, 7, true),
      convolution("conv-depthwise-28", 192, 28, 7, true),
      convolution("conv-depthwise-14", 384, 14, 7, true),
      convolution("conv-depthwise-7", 768, 7, 7, true),
      {op, "adamw", "AdamW over DeiT-tiny's 5.7 M parameters", "parameters", 5717416, false, adamw},
      {op, "copy", "a copy that moves as many bytes", "parameters", 5717416, false, copy},
  };
}

}  // namespace pursuit::bench
