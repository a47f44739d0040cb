// Norms with what they keep: running statistics under training, evaluation, averaging, graphs and ranks.
#include "nn/norms.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "cuda/runtime.h"
#include "engine/core/shapes_only.h"
#include "engine/cpu/parallel.h"
#include "engine/step/graph.h"
#include "nn/init.h"
#include "nn/layers.h"
#include "nn/optim.h"
#include "nn/sequential.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

Tensor pictures(uint64_t stream, Device device = cpu) {
  return normal({4, 3, 5, 2}, 1.5, 2, 1, stream).to(device);
}

// Mean and variance of a channel of x [B, C, H, W], in double.
struct Moments {
  double mean = 0, variance = 0;
  int64_t n = 0;
};
Moments moments_of(const Tensor& x, int64_t channel) {
  const std::vector<double> v = x.select(1, channel).contiguous().to_vector();
  Moments m;
  m.n = int64_t(v.size());
  for (double a : v) m.mean += a / double(m.n);
  for (double a : v) m.variance += (a - m.mean) * (a - m.mean) / double(m.n);
  return m;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().to(cpu).contiguous(), y = b.detach().to(cpu).contiguous();
  return x.numel() > 0 && x.dtype() == y.dtype() && x.shape() == y.shape() &&
         std::memcmp(x.raw(), y.raw(), size_t(x.bytes())) == 0;
}

void check_close(const Tensor& got, const std::vector<double>& want, double bar) {
  const std::vector<double> g = got.to_vector();
  REQUIRE(g.size() == want.size());
  REQUIRE(!g.empty());
  for (size_t i = 0; i < g.size(); ++i) CHECK(std::fabs(g[i] - want[i]) <= bar * (1 + std::fabs(want[i])));
}

// Two layers, one norm between them.
struct Net : nn::Callable<Net> {
  explicit Net(Device device = cpu) : first(3, 6), norm(6), last(6, 2) {
    add_module("first", first);
    add_module("norm", norm);
    add_module("last", last);
    nn::initialise(*this, nn::Init::pytorch, 3);
    to(device);
    set_training(true);
  }
  Tensor forward(const Tensor& x) const {  // [B, 3]
    return last(relu(norm(first(x).reshape({x.size(0), 6, 1, 1})).reshape({x.size(0), 6})));
  }
  nn::Linear first;
  nn::BatchNorm2d norm;
  nn::Linear last;
};

}  // namespace

TEST_CASE("batch norm: running statistics follow PyTorch's rule, once every forward pass in training") {
  const nn::BatchNorm2d norm(3, 1e-5, 0.25);
  const_cast<nn::BatchNorm2d&>(norm).set_training(true);
  std::vector<double> mean = {0, 0, 0}, variance = {1, 1, 1};
  for (uint64_t pass = 1; pass <= 3; ++pass) {
    const Tensor x = pictures(pass);
    if (pass == 2) {
      const NoGrad off;  // PyTorch's moves them off the tape too
      norm(x);
    } else {
      norm(x);
    }
    for (int64_t c = 0; c < 3; ++c) {
      const Moments m = moments_of(x, c);
      mean[size_t(c)] = 0.75 * mean[size_t(c)] + 0.25 * m.mean;
      variance[size_t(c)] = 0.75 * variance[size_t(c)] + 0.25 * m.variance * double(m.n) / double(m.n - 1);
    }
    check_close(norm.running_mean, mean, 1e-6);
    check_close(norm.running_var, variance, 1e-6);
    CHECK(norm.num_batches_tracked.item() == double(pass));
  }
}

TEST_CASE("batch norm: evaluation takes the running statistics, and leaves them alone") {
  nn::BatchNorm2d norm(3);
  copy_values(norm.running_mean, from_vector<float>({1, -2, 0.5}, {3}));
  copy_values(norm.running_var, from_vector<float>({4, 0.25, 1}, {3}));
  nn::fill_uniform(norm.weight, 1, 1, 1);
  nn::fill_uniform(norm.bias, 1, 1, 2);
  const Tensor x = pictures(1), before[] = {norm.running_mean + 0.0, norm.running_var + 0.0};
  std::vector<double> want;
  const std::vector<double> in = x.to_vector(), w = norm.weight.to_vector(), b = norm.bias.to_vector();
  const double means[] = {1, -2, 0.5}, variances[] = {4, 0.25, 1};
  for (size_t i = 0; i < in.size(); ++i) {
    const size_t c = i / 10 % 3;
    want.push_back((in[i] - means[c]) / std::sqrt(variances[c] + 1e-5) * w[c] + b[c]);
  }
  check_close(norm(x), want, 1e-6);
  CHECK(same_bits(norm.running_mean, before[0]));
  CHECK(same_bits(norm.running_var, before[1]));
  CHECK(norm.num_batches_tracked.item() == 0);
  // A gradient reaches the pictures: attacks run in evaluation.
  Tensor leaf = x.detach();
  leaf.requires_grad();
  sum(norm(leaf)).backward();
  std::vector<double> slopes;
  for (size_t i = 0; i < in.size(); ++i)
    slopes.push_back(w[i / 10 % 3] / std::sqrt(variances[i / 10 % 3] + 1e-5));
  check_close(leaf.grad(), slopes, 1e-6);
}

TEST_CASE("batch norm: bits do not depend on the threads") {
  const Tensor x = normal({16, 37, 11, 13}, 1, 2, 1, 1), up = normal(x.shape(), 0, 1, 1, 2);
  const auto run = [&](int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    nn::BatchNorm2d norm(37);
    norm.set_training(true);
    Tensor leaf = x.detach();
    leaf.requires_grad();
    const Tensor y = norm(leaf);
    y.backward(up);
    set_num_threads(before);
    return std::vector<Tensor>{y, leaf.grad(), norm.weight.grad(), norm.bias.grad(), norm.running_var};
  };
  const std::vector<Tensor> one = run(1), three = run(3);
  for (size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], three[i]));
}

TEST_CASE("batch norm: nothing is kept of a step on shapes alone") {
  const Net net;
  {
    const ShapesOnly shapes;
    sum(net(empty({8, 3}))).backward();
  }
  CHECK(net.norm.running_mean.to_vector() == std::vector<double>(6, 0));
  CHECK(net.norm.num_batches_tracked.item() == 0);
}

TEST_CASE("batch norm: what cannot be normalised is an error in one line") {
  nn::BatchNorm2d norm(3);
  CHECK_THROWS_WITH_AS(norm(ones({2, 4, 1, 1})),
                       "[batch_norm] got f32[2, 4, 1, 1] on cpu, need images [B, 3, H, W]", Error);
  norm.set_training(true);
  CHECK_THROWS_WITH_AS(norm(ones({1, 3, 1, 1})), doctest::Contains("need more than one number a channel"),
                       Error);
  CHECK(norm.num_batches_tracked.item() == 0);
  CHECK_THROWS_WITH_AS(batch_norm(ones({2, 3}), {}, {}, {}, false), doctest::Contains("none were given"),
                       Error);
  CHECK_THROWS_WITH_AS(batch_norm(ones({2, 3}), ones({2}), {}, {}, true), doctest::Contains("weight f32[2]"),
                       Error);
  CHECK_THROWS_WITH_AS(batch_norm(ones({2, 3}), {}, {}, {zeros({3}), ones({2})}, true),
                       doctest::Contains("a running mean f32[3]"), Error);
  CHECK_THROWS_WITH_AS(group_norm(ones({2, 3, 4}), 2), doctest::Contains("2 groups"), Error);
  CHECK_THROWS_WITH_AS(nn::GroupNorm(4, 6), doctest::Contains("need a number that divides them"), Error);
  CHECK_THROWS_WITH_AS(rms_norm(ones({2, 3}), ones({2}), 1e-6), doctest::Contains("need [..., dim]"), Error);
}

TEST_CASE("buffers: named as PyTorch's, no parameters, beside the weights on every device") {
  Net net;
  std::vector<std::string> names;
  for (const nn::NamedTensor& b : net.buffers()) names.push_back(b.name);
  CHECK(names ==
        std::vector<std::string>{"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"});
  CHECK(net.parameters().size() == 6);
  CHECK(net.state().size() == 9);
  CHECK(net.parameter_count() == 3 * 6 + 6 + 6 + 6 + 6 * 2 + 2);
  for (const nn::NamedTensor& b : net.buffers()) CHECK(!b.tensor->needs_grad());
  if (!cuda::available()) return;
  net.to(cuda_device());
  for (const nn::NamedTensor& b : net.buffers()) CHECK(b.tensor->device().is_cuda());
}

TEST_CASE("buffers: the optimizer leaves them alone, whatever it decays") {
  for (const auto kind : {nn::OptimizerConfig::Kind::adamw, nn::OptimizerConfig::Kind::sgd}) {
    Net net;
    nn::FlatParameters flat(net, [](const std::string&, const Tensor&) { return true; });
    nn::OptimizerConfig config;
    config.kind = kind;
    config.weight_decay = 0.5;
    nn::Optimizer optimizer(flat, config);
    sum(net(normal({8, 3}, 0, 1, 1, 1))).backward();
    const Tensor mean = net.norm.running_mean + 0.0, weight = net.norm.weight.detach() + 0.0;
    optimizer.step(0.1);
    CHECK(same_bits(net.norm.running_mean, mean));
    CHECK(!same_bits(net.norm.weight, weight));
    CHECK(flat.values.numel() < net.parameter_count() + 8 * 6);  // and hold no place among the weights
  }
}

TEST_CASE("buffers: averaged with the weights, exchanged with them for an evaluation") {
  Net net;
  nn::FlatParameters flat(net);
  nn::Optimizer optimizer(flat);
  nn::Ema ema(flat, 0.75);
  std::vector<double> mean(6, 0), variance(6, 1);
  for (uint64_t step = 1; step <= 3; ++step) {
    optimizer.zero_grad();
    sum(net(normal({8, 3}, 0, 1, 1, step))).backward();
    optimizer.step(1e-2);
    ema.update();
    const std::vector<double> m = net.norm.running_mean.to_vector(), v = net.norm.running_var.to_vector();
    for (size_t c = 0; c < 6; ++c) {
      mean[c] = 0.75 * mean[c] + 0.25 * m[c];
      variance[c] = 0.75 * variance[c] + 0.25 * v[c];
    }
  }
  const Tensor own = net.norm.running_var + 0.0;
  ema.swap();
  check_close(net.norm.running_mean, mean, 1e-6);
  check_close(net.norm.running_var, variance, 1e-6);
  CHECK(net.norm.num_batches_tracked.item() == 3);
  CHECK(ema.named().size() == 8);
  CHECK(ema.named()[7].first == "norm.running_var");
  CHECK(same_bits(ema.named()[7].second, own));  // while they are exchanged
  ema.swap();
  CHECK(same_bits(net.norm.running_var, own));
}

GPU_TEST_CASE("batch norm: a recorded step keeps the statistics of every run") {
  struct Step {
    Net net{cuda_device()};
    nn::FlatParameters flat{net};
    nn::Optimizer optimizer{flat};
    nn::Ema ema{flat, 0.5};
    Tensor x = zeros({8, 3}, DType::f32, cuda_device());
    Replayed replayed;
    explicit Step(bool record) : replayed(cuda_device(), record) {}
    void run(uint64_t i) {
      copy_values(x, normal({8, 3}, 0, 1, 1, i));
      optimizer.begin(1e-2);
      replayed([&] {
        optimizer.zero_grad();
        mean(square(net(x))).backward();
        optimizer.update();
        ema.update();
      });
    }
  } eager(false), recorded(true);
  for (uint64_t i = 0; i < 4; ++i) {
    eager.run(i);
    recorded.run(i);
    CHECK(recorded.net.norm.num_batches_tracked.item() == double(i + 1));
    CHECK(same_bits(recorded.flat.buffers, eager.flat.buffers));
    CHECK(same_bits(recorded.flat.values, eager.flat.values));
    CHECK(same_bits(recorded.ema.buffers, eager.ema.buffers));
  }
}

GPU_TEST_CASE("batch norm: the GPU keeps the statistics that the CPU keeps") {
  nn::BatchNorm2d host(3), there(3);
  there.to(cuda_device());
  for (nn::BatchNorm2d* norm : {&host, &there}) norm->set_training(true);
  for (uint64_t pass = 1; pass <= 2; ++pass) {
    check_close(there(pictures(pass, cuda_device())).to(cpu), host(pictures(pass)).to_vector(), 2e-6);
    check_close(there.running_mean.to(cpu), host.running_mean.to_vector(), 1e-6);
    check_close(there.running_var.to(cpu), host.running_var.to_vector(), 1e-6);
  }
}

TEST_CASE("norms: instance norm is a group norm of single channels, and has no parameters by default") {
  nn::InstanceNorm2d plain(4), affine(4, 1e-5, true);
  nn::GroupNorm groups(4, 4);
  CHECK(plain.parameters().empty());
  CHECK(affine.parameters().size() == 2);
  for (nn::Module* m : std::vector<nn::Module*>{&affine, &groups}) nn::initialise(*m, nn::Init::pytorch, 1);
  const Tensor x = normal({2, 4, 3, 5}, 1, 2, 1, 1);
  CHECK(same_bits(plain(x), groups(x)));
  CHECK(same_bits(affine(x), groups(x)));
  // Every channel of every picture has mean 0 and variance 1.
  const Tensor rows = plain(x).reshape({8, 15});
  check_close(mean(rows, {1}), std::vector<double>(8, 0), 1e-6);
  check_close(mean(square(rows), {1}), std::vector<double>(8, 1), 1e-4);
}

TEST_CASE("sequential: layers one after the other, under their numbers") {
  nn::Sequential net;
  net.add<nn::Linear>(3, 4).add(relu).add<nn::RmsNorm>(4).add<nn::Sequential>();
  std::vector<std::string> names;
  for (const nn::NamedTensor& p : net.parameters()) names.push_back(p.name);
  CHECK(names == std::vector<std::string>{"0.weight", "0.bias", "2.weight"});
  nn::initialise(net, nn::Init::pytorch, 5);
  const Tensor x = normal({2, 3}, 0, 1, 1, 1);
  const std::vector<nn::NamedTensor> p = net.parameters();
  CHECK(same_bits(net(x), rms_norm(relu(linear(x, *p[0].tensor, *p[1].tensor)), *p[2].tensor, 1e-6)));
}

TEST_CASE("training by hand: zero_grad, backward, step") {
  nn::Sequential net;
  net.add<nn::Linear>(2, 16).add(gelu).add<nn::Linear>(16, 2);
  nn::initialise(net, nn::Init::pytorch, 0);
  nn::FlatParameters flat(net);
  nn::Optimizer optimizer(flat, {.weight_decay = 0});
  // Which side of a circle a point lies on.
  const Tensor x = uniform({256, 2}, -1, 1, 1, 1);
  std::vector<int32_t> inside;
  for (int64_t i = 0; i < 256; ++i) {
    const float *p = x.data<float>() + 2 * i, square = p[0] * p[0] + p[1] * p[1];
    inside.push_back(square < 0.5f);
  }
  const Tensor labels = from_vector(inside, {256});
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), labels);
    loss.backward();
    optimizer.step(2e-2);
    (step == 0 ? first : last) = loss.item();
  }
  CHECK(first > 0.6);
  CHECK(last < 0.1);
}
