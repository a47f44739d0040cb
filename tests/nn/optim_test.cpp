#include "nn/optim.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "cuda/runtime.h"
#include "engine/ops.h"
#include "tests/differences.h"
#include "tests/needs.h"

using namespace pursuit;
using namespace pursuit::nn;

namespace {

std::vector<Device> devices() {
  std::vector<Device> all{cpu};
  if (cuda::available()) all.push_back(cuda_device());
  return all;
}

// Parameters of awkward sizes, the last without a gradient, and a loss whose gradients are as uneven.
struct Toy : Module {
  Tensor a, b, c, d;
  FlatParameters flat;

  explicit Toy(Device device, DType computes_in = DType::f32)
      : flat(made(device), decays_by_timm, computes_in) {}

  std::vector<NamedTensor> made(Device device) {
    add_parameter("a", a, {5, 7});
    add_parameter("b", b, {3});
    add_parameter("c", c, {129, 33});
    add_parameter("d", d, {2, 1});
    for (const NamedTensor& p : parameters()) copy_values(*p.tensor, random(*p.tensor, p.name));
    to(device);
    return parameters();
  }
  static Tensor random(const Tensor& t, const std::string& name) {
    return uniform(t.shape(), -1, 1, 5, uint64_t(name[0]));
  }
  // One backward in the dtype `t`; all gradients arrive in it.
  void backward(int step, double scale, DType t = DType::f32) {
    flat.zero_grad();
    for (const NamedTensor& p : parameters()) {
      if (p.name == "d") continue;
      const Tensor weight = uniform(p.tensor->shape(), -scale, scale, uint64_t(step), uint64_t(p.name[0]));
      sum(p.tensor->to(t) * weight.to(t).to(p.tensor->device())).backward();
    }
    flat.finish_grad();
  }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().to(cpu).contiguous(), y = b.detach().to(cpu).contiguous();
  return x.dtype() == y.dtype() && x.shape() == y.shape() &&
         std::memcmp(x.raw(), y.raw(), size_t(x.bytes())) == 0;
}

std::vector<OptimizerConfig> configs() {
  OptimizerConfig adamw, clipped, sgd, plain;
  clipped.clip_norm = 1.5;
  sgd.kind = plain.kind = OptimizerConfig::Kind::sgd;
  sgd.clip_norm = 1e9;  // never reached
  plain.nesterov = false;
  return {adamw, clipped, sgd, plain};
}

}  // namespace

TEST_CASE("optimizers: a step by hand") {
  for (const Device device : devices()) {
    Toy toy(device);
    OptimizerConfig config;
    config.clip_norm = 0.5;
    config.weight_decay = 0.1;
    Optimizer optimizer(toy.flat, config);
    toy.backward(1, 1);
    const std::vector<double> g = toy.flat.grads.to_vector(), p = toy.flat.values.to_vector();
    double norm = 0;
    for (double v : g) norm += v * v;
    const double factor = std::min(1.0, 0.5 / (std::sqrt(norm) + 1e-6));
    REQUIRE(factor < 0.5);
    optimizer.step(0.01);
    const std::vector<double> now = toy.flat.values.to_vector();
    const std::vector<int64_t> at = flat_offsets(toy.parameters());
    CHECK(at == std::vector<int64_t>{0, 40, 48, 4312, 4314});
    for (size_t i = 0; i < p.size(); ++i) {
      const bool decays = i < 40 || i >= 48;  // all but the vector b
      // In the first step mhat / sqrt(vhat) = g / |g|.
      const double h = factor * g[i],
                   want = p[i] * (decays ? 1 - 0.001 : 1) - 0.01 * h / (std::fabs(h) + 1e-8);
      CHECK(now[i] == doctest::Approx(want).epsilon(1e-5));
    }
  }
}

TEST_CASE("optimizers: an update with the weighted sum of several batches is one with their weighted mean") {
  const double weights[] = {1, 0.25, 0, 0.75};
  for (const Device device : devices())
    for (const OptimizerConfig& config : configs()) {
      Toy sum(device), mean(device);
      Optimizer by_sum(sum.flat, config), by_mean(mean.flat, config);
      const Tensor total = full({}, 2, DType::f32, device);
      for (int step = 1; step <= 3; ++step) {
        const auto loss = [&](Toy& toy, int batch) {
          Tensor sum = zeros({}, DType::f32, device);
          for (const NamedTensor& p : toy.parameters()) {
            if (p.name == "d") continue;
            const Tensor w =
                uniform(p.tensor->shape(), -1, 1, uint64_t(10 * step + batch), uint64_t(p.name[0]));
            sum = sum + pursuit::sum(*p.tensor * w.to(device));
          }
          return sum;
        };
        sum.flat.zero_sum();
        mean.flat.zero_grad();
        Tensor all = zeros({}, DType::f32, device);
        for (int batch = 0; batch < 4; ++batch) {
          loss(sum, batch).backward(full({}, weights[batch], DType::f32, device));
          sum.flat.add_grad();
          all = all + (weights[batch] / 2) * loss(mean, batch);
        }
        all.backward();
        by_sum.begin(0.01);
        by_sum.update(total);
        by_mean.step(0.01);
        CHECK(largest_difference(sum.flat.grads, 2 * mean.flat.grads) < 1e-5);
      }
      // Adam divides by the gradient's size, so that rounding of small ones shows.
      CHECK(largest_difference(sum.flat.values, mean.flat.values) < 1e-4);
      CHECK(largest_difference(sum.flat.values, Toy(device).flat.values) > 1e-3);
    }
}

GPU_TEST_CASE("optimizers: the GPU does what the CPU does") {
  for (const OptimizerConfig& config : configs()) {
    Toy host(cpu), gpu(cuda_device());
    Optimizer on_host(host.flat, config), on_gpu(gpu.flat, config);
    Ema host_ema(host.flat, 0.75), gpu_ema(gpu.flat, 0.75);
    for (int step = 1; step <= 4; ++step) {
      host.backward(step, step == 3 ? 0.01 : 1);  // not clipped
      gpu.backward(step, step == 3 ? 0.01 : 1);
      REQUIRE(same_bits(host.flat.grads, gpu.flat.grads));
      on_host.step(0.01 * step);
      on_gpu.step(0.01 * step);
      host_ema.update();
      gpu_ema.update();
    }
    CHECK(largest_difference(gpu.flat.values, host.flat.values) < 1e-6);
    CHECK(largest_difference(gpu_ema.values, host_ema.values) < 1e-6);
    for (size_t i = 0; i < on_host.state().size(); ++i)
      CHECK(largest_difference(*on_gpu.state()[i].tensor, *on_host.state()[i].tensor) < 1e-6);
    const Tensor before = gpu.flat.values.to(cpu), average = gpu_ema.values.to(cpu);
    gpu_ema.swap();
    CHECK(same_bits(gpu.flat.values, average));
    CHECK(same_bits(gpu_ema.values, before));
  }
}

TEST_CASE("optimizers: an update uses the gradients that arrived, finish_grad or not") {
  for (const Device device : devices()) {
    std::vector<Tensor> results;
    for (const bool explicitly : {true, false}) {
      Toy toy(device);
      Optimizer optimizer(toy.flat, {});
      const auto backward = [&](const Tensor& t, double scale) { sum(t * scale).backward(); };
      const auto step = [&] {
        if (explicitly) toy.flat.finish_grad();
        optimizer.step(0.01);
      };
      toy.flat.zero_grad();
      backward(toy.a, 1);
      backward(toy.d, 2);
      step();
      toy.flat.zero_grad();
      backward(toy.a, 3);  // none for d, whose last one is no gradient of this step
      step();
      // A gradient that arrives after finish_grad counts too.
      toy.flat.zero_grad();
      toy.flat.finish_grad();
      backward(toy.d, -1);
      step();
      // And nothing arrived: all are zero.
      toy.flat.zero_grad();
      step();
      results.push_back(toy.flat.values.to(cpu));
    }
    CHECK(same_bits(results[0], results[1]));
  }
}

TEST_CASE("optimizers: gradients that are not finite end in weights that are not") {
  for (const Device device : devices())
    for (const OptimizerConfig& config : configs()) {
      Toy toy(device);
      Optimizer optimizer(toy.flat, config);
      toy.backward(1, 1);
      copy_values(toy.flat.grads.slice(0, 3, 4), full({1}, NAN, DType::f32, device));
      optimizer.step(0.01);
      const std::vector<double> values = toy.flat.values.to_vector();
      CHECK(std::isnan(values[3]));
      CHECK(std::isfinite(values[2]));  // a norm that is NaN clips nothing
    }
}

TEST_CASE("optimizers: a model that computes in bf16 finds its weights rounded") {
  std::vector<Tensor> results;
  for (const Device device : devices())
    for (const bool copied : {false, true}) {
      Toy toy(device, copied ? DType::bf16 : DType::f32);
      Optimizer optimizer(toy.flat, {});
      Ema ema(toy.flat, 0.5);
      for (int step = 1; step <= 3; ++step) {
        toy.backward(step, 1, DType::bf16);
        optimizer.step(0.01);
        ema.update();
      }
      ema.swap();
      CHECK(toy.flat.copy.defined() == copied);
      if (copied) {
        CHECK(same_bits(toy.flat.copy, cast(toy.flat.values, DType::bf16)));
        CHECK(toy.c.to(DType::bf16).storage() == toy.flat.copy.storage());
      }
      results.push_back(toy.flat.values.to(cpu));
    }
  // Gradients pass through the copy as through a cast.
  for (size_t i = 0; i < results.size(); i += 2) CHECK(same_bits(results[i], results[i + 1]));
}
