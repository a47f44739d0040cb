#include "cuda/traffic.h"

#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "engine/ops.h"
#include "nn/init.h"
#include "nn/optim.h"
#include "nn/vit.h"
#include "tests/environment_variable.h"

using namespace pursuit;
using cuda::KernelTraffic;

namespace {

Tensor drawn(const Shape& shape, DType dtype) {
  return uniform(shape, -1, 1, 1, 1).to(dtype).to(cuda_device());
}

KernelTraffic sum_of(const std::vector<KernelTraffic>& kernels) {
  KernelTraffic all;
  for (const KernelTraffic& k : kernels) {
    all.launches += k.launches;
    all.read += k.read;
    all.written += k.written;
    all.multiply_adds += k.multiply_adds;
  }
  return all;
}

// The traffic of work that launches one kernel.
KernelTraffic only(const std::function<void()>& work) {
  const std::vector<KernelTraffic> kernels = cuda::traffic_of([&] {
    work();
    synchronize(cuda_device());
  });
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].launches == 1);
  return kernels[0];
}

// The traffic of DeiT-tiny with `depth` blocks in bf16: forward, backward and, with `updates`, the optimizer.
KernelTraffic step_of(int64_t batch, int depth, double drop_path, bool updates = false) {
  const Device device = cuda_device();
  nn::VitConfig config;
  config.depth = depth;
  config.drop_path = drop_path;
  nn::VisionTransformer model(config);
  nn::initialise(model, nn::Init::timm, 1);
  model.to(device);
  nn::FlatParameters flat(model, nn::decays_by_timm, DType::bf16);
  nn::Optimizer optimizer(flat);
  model.set_training(true);
  const Tensor images = drawn({batch, 3, 224, 224}, DType::bf16),
               labels = zeros({batch}, DType::i64).to(device);
  return sum_of(cuda::traffic_of([&] {
    cross_entropy(model(images).to(DType::f32), labels, 0.1).backward();
    if (updates) optimizer.step(1e-3);
    synchronize(device);
  }));
}

// The bytes that a kernel reads and writes of tensors that grow with the batch, in U.
struct Term {
  const char* kernel;
  double read, written;
};
double sum_of(const std::vector<Term>& terms) {
  double u = 0;
  for (const Term& t : terms) u += t.read + t.written;
  return u;
}

}  // namespace

// Every number is counted by hand from the operator's equation: what it must read and write, once.
TEST_CASE("traffic: of three operators as counted by hand") {
  constexpr int64_t rows = 96, cols = 192, out = 64, wide = 4, narrow = 2;
  const Tensor x = drawn({rows, cols}, DType::f32), weight = drawn({cols}, DType::f32),
               bias = drawn({cols}, DType::f32);
  const KernelTraffic norm = only([&] { layer_norm(x, weight, bias, 1e-6, DType::bf16); });
  CHECK(norm.read == (rows * cols + 2 * cols) * wide);
  CHECK(norm.written == rows * cols * narrow + 2 * rows * wide);  // and each row's mean and deviation
  CHECK(norm.multiply_adds == 0);

  const Tensor leaf = x.detach().requires_grad(), seed = drawn({rows, cols}, DType::bf16);
  const Tensor y = layer_norm(leaf, weight, bias, 1e-6, DType::bf16);
  const KernelTraffic gradient = only([&] { y.backward(seed); });
  constexpr int64_t parts = rows / 16 * 2 * cols * wide;  // the sums of each block's 16 rows
  CHECK(gradient.read == rows * cols * (wide + narrow) + (cols + 2 * rows) * wide + parts);
  CHECK(gradient.written == rows * cols * (wide + narrow) + 2 * cols * wide + parts);

  const Tensor a = drawn({rows, cols}, DType::bf16), w = drawn({out, cols}, DType::bf16);
  const KernelTraffic product = only([&] { linear(a, w, {}); });
  CHECK(product.read == (rows + out) * cols * narrow);
  CHECK(product.written == rows * out * narrow);
  CHECK(product.multiply_adds == rows * out * cols);

  const KernelTraffic probabilities = only([&] { softmax(a); });
  CHECK(probabilities.read == rows * cols * narrow);
  CHECK(probabilities.written == rows * cols * narrow);
}

// Products of n x n x d. Forward: scores and result. Backward: scores and the weights' gradient, for the rows and
// again for the columns, and the gradients of queries, keys and values.
TEST_CASE("traffic: attention's products") {
  const auto count = [](int64_t n, const AttentionOptions& options, int64_t forward, int64_t backward) {
    constexpr int64_t d = 64;
    const Tensor qkv = drawn({1, n, 3, 1, d}, DType::bf16).requires_grad(), g = drawn({1, n, d}, DType::bf16);
    Tensor y;
    CHECK(only([&] { y = attention(qkv, options); }).multiply_adds == forward * n * n * d);
    const KernelTraffic gradient = sum_of(cuda::traffic_of([&] {
      y.backward(g);
      synchronize(cuda_device());
    }));
    CHECK(gradient.multiply_adds == backward * n * n * d);
  };
  count(192, {}, 2, 7);  // in one kernel
  count(256, {}, 2, 7);  // in two
  // Clipped: the sums of rows take a pass over the keys, each way.
  count(256, {.gamma = -0.03, .zeta = 1.03}, 3, 9);
}

// 8-bit pictures become patches of numbers in one pass, which the first product reads.
TEST_CASE("traffic: from pictures to tokens") {
  constexpr int64_t batch = 2, side = 64, patch = 16, dim = 32, pixels = batch * 3 * side * side;
  constexpr int64_t tokens = batch * side * side / (patch * patch), narrow = 2;
  const Tensor pictures = zeros({batch, 3, side, side}, DType::u8).to(cuda_device());
  const Tensor weight = drawn({dim, 3 * patch * patch}, DType::bf16), bias = drawn({dim}, DType::bf16);
  Tensor patches;
  const std::vector<double> mean = {0.5, 0.5, 0.5};
  const KernelTraffic normalised =
      only([&] { patches = normalise_images(pictures, mean, mean, DType::bf16, {}, {}, 0, 0, {}, patch); });
  CHECK(normalised.read == pixels);
  CHECK(normalised.written == pixels * narrow);
  const KernelTraffic product = only([&] { linear(patches, weight, bias); });
  CHECK(product.read == (pixels + weight.numel() + dim) * narrow);
  CHECK(product.written == tokens * dim * narrow);
}

TEST_CASE("traffic: what is read twice by a launch counts once, what is not read does not count") {
  const Tensor row = drawn({1, 256}, DType::f32);
  const KernelTraffic spread = only([&] { row.expand({64, 256}).contiguous(); });
  CHECK(spread.read == 256 * 4);
  CHECK(spread.written == 64 * 256 * 4);
  const Tensor x = drawn({64, 256}, DType::f32);
  const KernelTraffic part = only([&] { x.slice(1, 0, 8).contiguous(); });  // a sector of every row
  CHECK(part.read == 64 * 8 * 4);
}

// U: the bytes of a block's tokens in bf16, [batch, 197, 192]; the residual stream and its gradient are f32,
// 2 U. Each kernel's terms are what it must read and write of its inputs and results. The goal is 85 U.
TEST_CASE("traffic: a block of DeiT-tiny, forward and backward, moves what the plan says") {
  const std::vector<Term> terms = {
      {"qkv", 1, 3},
      {"attention", 3, 1},
      {"proj", 1, 1},
      {"stream and branch, sum 2 again; sum and norm 2, hidden, sum and norm 1 of the next block", 5, 10},
      {"MLP gradient: g, hidden; GELU's result, of hidden, of x", 5, 9},
      {"sums of fc1's bias gradient", 0, 0},
      {"fc2 dW", 5, 0},
      {"fc1 dW", 5, 0},
      {"sum and norm 2, gradient: x, g, so far; of stream and branch", 5, 3},
      {"proj dX", 1, 1},
      {"proj dW", 2, 0},
      {"attention gradient: q, k, v, result, g", 5, 3},
      {"qkv dX", 3, 1},
      {"qkv dW", 4, 0},
      {"sum and norm 1, gradient", 5, 3},
  };

  constexpr double batch = 2, rows = batch * 197, u = rows * 192 * 2;
  // Per row: mean and deviation of two norms and softmax's two numbers for three heads, each written and read
  // once.
  constexpr double statistics = rows * 2 * (2 * 8 + 3 * 8);
  // Weights and biases in bf16 are read in both directions, their gradients written; the norms' are f32.
  constexpr double parameters = 3 * 2 * (12 * 192 * 192 + 9 * 192) + 2 * 5 * 192 * 4;
  // Sums of the blocks of a launch, in f32, written and read: of 16 rows for a norm, and of a third of the
  // rows for fc1's bias, as the simulated GPU has three multiprocessors. At batch 256 they are 0.08 U.
  constexpr double parts = 2 * 4 * (2 * rows / 16 * 2 * 192 + 3 * 768);

  // Drop path skips the reads of dropped samples, and its rate depends on the block (0 for the first). A tiny
  // rate drops no sample and shows the traffic of all.
  for (const double drop_path : {0.0, 1e-9}) {
    const KernelTraffic three = step_of(int64_t(batch), 3, drop_path),
                        two = step_of(int64_t(batch), 2, drop_path);
    const double moved = double(three.read + three.written - two.read - two.written);
    const double block = (moved - statistics - parameters - parts) / u, plan = sum_of(terms);
    const int64_t launches = three.launches - two.launches;
    MESSAGE("drop_path ", drop_path, ": a block moves ", block, " U, by the plan ", plan, ", in ", launches,
            " launches");
    CHECK(block == doctest::Approx(plan).epsilon(0.002));
    CHECK(launches == int64_t(terms.size()));
  }
}

// The setting of the recipes: 12 blocks, drop path, AdamW. The goal is 250 launches.
TEST_CASE("traffic: the launches of a step of DeiT-tiny") {
  const auto launches = [](int64_t batch) { return step_of(batch, 12, 0.1, true).launches; };
  const auto in_form = [&](const char* form) {
    const EnvironmentVariable given("PURSUIT_MLP", form);
    return launches(2);
  };
  const int64_t step = launches(2), apart = in_form("apart"), products = in_form("products");
  MESSAGE("a step is ", step, " launches, with norms apart ", apart, ", with an MLP of products ", products);
  CHECK(step <= 212);
  CHECK(apart == step + 22);  // two in every block but the last, whose class token alone is normalised
  CHECK(products > apart);
  CHECK(products <= 270);
  // A batch that has not 128 rows for each of three multiprocessors: smaller tiles.
  CHECK(launches(1) <= step);
}
