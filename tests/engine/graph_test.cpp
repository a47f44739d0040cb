// Captured steps, their memory, and transfers between host and device.
#include "engine/step/graph.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "cuda/runtime.h"
#include "engine/operator/copy.h"
#include "engine/ops.h"
#include "engine/solve/linalg.h"
#include "engine/step/transfer.h"
#include "nn/optim.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

Tensor on_gpu(const Tensor& x) { return x.to(cuda_device()); }

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().to(cpu).contiguous(), y = b.detach().to(cpu).contiguous();
  return x.dtype() == y.dtype() && x.shape() == y.shape() &&
         std::memcmp(x.raw(), y.raw(), size_t(x.bytes())) == 0;
}

// A small step with everything that changes from one to the next: data, dropout, learning rate, Adam's count.
struct Step {
  Tensor w, b, x, counter, loss;
  nn::FlatParameters flat;
  nn::Optimizer optimizer;
  nn::Ema ema;
  std::unique_ptr<Graph> graph;

  Step() : flat(made(), nn::decays_by_timm), optimizer(flat, clipped()), ema(flat, 0.5) {
    x = zeros({4, 6}, DType::f32, cuda_device());
    counter = zeros({2}, DType::i64, cuda_device());
  }
  std::vector<nn::NamedTensor> made() {
    w = on_gpu(uniform({6, 5}, -1, 1, 1, 1)).requires_grad();
    b = on_gpu(uniform({5}, -1, 1, 1, 2)).requires_grad();
    return {{"w", &w}, {"b", &b}};
  }
  static nn::OptimizerConfig clipped() {
    nn::OptimizerConfig c;
    c.clip_norm = 0.5;
    return c;
  }

  void work() {
    flat.zero_grad();
    const Tensor y = dropout(matmul(x, w) + b, 0.5, 7, 3, counter);
    const Tensor l = mean(square(y));
    l.backward();
    optimizer.update();
    ema.update();
    if (loss.defined())
      copy_values(loss, l);
    else
      loss = l.detach();
  }
  // The step number `i`, counted from 0, recorded as a graph before step 2 or never.
  void run(int64_t i, bool recorded) {
    copy_values(x, uniform({4, 6}, -1, 1, 2, uint64_t(i)));
    const int64_t count[2] = {i, i % 3};
    write_small(counter, count);
    optimizer.begin(0.01 * double(i + 1));
    if (recorded && i == 2) {
      graph = std::make_unique<Graph>(cuda_device(), [&] { work(); });
    }
    graph ? graph->launch() : work();
  }
};

}  // namespace

GPU_TEST_CASE("graph: a recorded step gives the bits of one that is run, step after step") {
  Step eager, recorded;
  std::vector<double> losses;
  for (int64_t i = 0; i < 6; ++i) {
    eager.run(i, false);
    recorded.run(i, true);
    // Other allocations and writes in between must not affect the graph.
    for (int64_t n : {1, 100, 5000}) full({n, 3}, NAN, DType::f32, cuda_device());
    CHECK(same_bits(recorded.loss, eager.loss));
    CHECK(same_bits(recorded.flat.values, eager.flat.values));
    CHECK(same_bits(recorded.ema.values, eager.ema.values));
    losses.push_back(recorded.loss.item());
  }
  REQUIRE(recorded.graph);
  for (size_t i = 1; i < losses.size(); ++i) CHECK(losses[i] != losses[i - 1]);
}

GPU_TEST_CASE("graph: recording runs nothing, and what waits for the GPU cannot be recorded") {
  const Tensor x = on_gpu(arange(5, DType::f32));
  {
    const Graph graph(cuda_device(), [&] { copy_values(x, x * 2.0); });
    CHECK(x.to_vector()[4] == 4);
    graph.launch();
    graph.launch();
    CHECK(x.to_vector()[4] == 16);
  }
  CHECK_THROWS_AS(Graph(cuda_device(), [&] { sum(x).item(); }), Error);
  CHECK_THROWS_WITH_AS(Graph(cuda_device(),
                             [&] {
                               svd(x.reshape({1, 5}));
                             }),
                       doctest::Contains("recorded step"), Error);
  CHECK_THROWS_WITH_AS(Graph(cuda_device(), [] { fail("test", "stops half-way"); }),
                       doctest::Contains("half-way"), Error);
  copy_values(x, x + 1.0);  // and all goes on
  CHECK(x.to_vector()[4] == 17);
}

TEST_CASE("graph: its memory is its own until it goes" *
          NEEDS("gpu", !cuda::available() || allocator() != "pool")) {
  const Device gpu = cuda_device();
  const Tensor x = zeros({300000}, DType::f32, gpu);
  empty_cache(gpu);
  const int64_t before = memory_stats(gpu).reserved;
  const void* inside = nullptr;
  {
    Tensor kept;
    {
      const Graph graph(gpu, [&] {
        const Tensor y = x + 1.0;
        inside = y.raw();
        Tensor freed_before;
        { freed_before = y * 2.0; }
        freed_before = Tensor();
        kept = y * 3.0;  // in the memory of the tensor before
      });
      const int64_t with_graph = memory_stats(gpu).reserved;
      CHECK(with_graph > before);
      empty_cache(gpu);
      CHECK(memory_stats(gpu).reserved == with_graph);
      const Tensor other = empty({300000}, DType::f32, gpu);
      CHECK(other.raw() != inside);
      CHECK(memory_stats(gpu).reserved > with_graph);
      graph.launch();
      CHECK(kept.to_vector()[299999] == 3);
    }
    CHECK(kept.to_vector()[0] == 3);  // a tensor outlives the graph that it comes from
    const int64_t reserved = memory_stats(gpu).reserved;
    const Tensor other = empty({300000}, DType::f32, gpu);
    CHECK(memory_stats(gpu).reserved == reserved);
  }
  empty_cache(gpu);
  CHECK(memory_stats(gpu).reserved == before);
}

GPU_TEST_CASE("graph: out of memory while recording ends the recording alone") {
  const Device gpu = cuda_device();
  const Tensor x = zeros({1000}, DType::f32, gpu);
  empty_cache(gpu);
  set_memory_limit(gpu, memory_stats(gpu).reserved + (4 << 20));
  CHECK_THROWS_WITH_AS(Graph(gpu,
                             [&] {
                               const Tensor big = x.expand({4000, 1000}) + 1.0;
                             }),
                       doctest::Contains("out of memory on cuda:0"), OutOfMemory);
  set_memory_limit(gpu, 0);
  CHECK((x + 1.0).to_vector()[999] == 1);
}

#ifdef PURSUIT_SIMULATED  // it has 1 GiB
TEST_CASE("memory: a GPU that has no more says how much it has, and goes on") {
  const Device gpu = cuda_device();
  const Tensor x = zeros({1000}, DType::f32, gpu);
  CHECK_THROWS_WITH_AS(empty({int64_t(1) << 30}, DType::f32, gpu), doctest::Contains("of 1024 MiB"),
                       OutOfMemory);
  CHECK((x + 1.0).to_vector()[999] == 1);
}
#endif

TEST_CASE("transfer: uploads arrive in order, whatever becomes of the source") {
  std::vector<Device> devices{cpu};
  if (cuda::available()) devices.push_back(cuda_device());
  for (const Device device : devices) {
    Upload upload({3, 7}, DType::u8, device);
    Readback sums[2] = {Readback(device), Readback(device)};
    for (int i = 0; i < 6; ++i) {
      std::vector<uint8_t> values(21, uint8_t(i));
      upload.send(values.data());
      std::fill(values.begin(), values.end(), uint8_t(99));
      // The sum of one is read while the next is under way.
      if (i > 0) CHECK(sums[(i - 1) % 2].wait() == 21 * float(i - 1));
      sums[i % 2].start(sum(upload.tensor().to(DType::f32)));
    }
    CHECK(sums[1].wait() == 105);
  }
}
