#include "engine/cpu/parallel.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "engine/base/random.h"
#include "engine/ops.h"
#include "nn/init.h"
#include "nn/optim.h"
#include "nn/vit.h"

using namespace pursuit;

namespace {

struct Threads {
  int before = num_threads();
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
};

}  // namespace

TEST_CASE("parallel_for covers every index once, whatever the threads, sizes and grains") {
  for (const int threads : {1, 2, 3, 8}) {
    const Threads use(threads);
    for (const int64_t n : {0, 1, 2, 7, 1000}) {
      for (const int64_t grain : {0, 1, 3, 5000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
        std::atomic<int> bodies = 0;
        parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          ++bodies;
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        for (const auto& s : seen) CHECK(s == 1);
        CHECK(bodies <= (threads == 1 ? 1 : 16 * threads));
        if (bodies > threads) CHECK(bodies % threads == 0);
        if (grain > n) CHECK(bodies == (n > 0 ? 1 : 0));
      }
    }
  }
}

TEST_CASE(
    "parallel_for inside parallel_for runs in place, and from several threads at once every call is whole") {
  const Threads use(4);
  std::atomic<int64_t> sum = 0;
  const auto nested = [&] {
    for (int repeat = 0; repeat < 200; ++repeat)
      parallel_for(16, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          parallel_for(10, 1, [&](int64_t b, int64_t e) { sum += e - b; });
      });
  };
  std::thread other(nested), third(nested);
  nested();
  other.join();
  third.join();
  CHECK(sum == 3 * 200 * 160);
}

TEST_CASE("ranges of a thread that is held up are taken over by another") {
  const Threads use(2);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<int> done = 0, bodies = 0;
    std::atomic<bool> taken_over = true, held = false;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    parallel_for(64, 1, [&](int64_t begin, int64_t end) {
      ++bodies;
      if (held.exchange(true)) {
        done += int(end - begin);
        return;
      }
      while (done + int(end - begin) < 64 && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
      taken_over = done + int(end - begin) == 64;
    });
    CHECK(taken_over);
    CHECK(bodies > 2);
  }
}

TEST_CASE("the exception of a body arrives at the caller, and the pool goes on") {
  const Threads use(3);
  for (int repeat = 0; repeat < 50; ++repeat) {
    const auto thrower = [&] {
      parallel_for(30, 1, [](int64_t begin, int64_t) {
        if (begin == 0) throw std::runtime_error("body");
      });
    };
    CHECK_THROWS_WITH(thrower(), "body");
  }
  std::atomic<int64_t> count = 0;
  parallel_for(30, 1, [&](int64_t begin, int64_t end) { count += end - begin; });
  CHECK(count == 30);
}

TEST_CASE("denormal numbers are 0 inside a body and back outside") {
  const Threads use(2);
  volatile float tiny = 1e-40f;
  std::atomic<int> kept = 0;
  parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (tiny * 1.0f != 0) ++kept;
  });
  CHECK(kept == 0);
  CHECK(tiny * 1.0f != 0);
}

TEST_CASE("a training step's gradients are the same bits on 1, 2 and 5 threads") {
  std::vector<std::vector<float>> gradients;
  for (const int threads : {1, 2, 5}) {
    const Threads use(threads);
    nn::VitConfig config;
    config.image = 16;
    config.patch = 4;
    config.dim = 48;
    config.depth = 2;
    config.heads = 3;
    config.classes = 7;
    config.attention.kind = "rpc";
    nn::VisionTransformer model(config);
    nn::initialise(model, nn::Init::timm, 3);
    nn::FlatParameters flat(model.parameters(), nn::decays_by_timm);
    const Tensor images = normal({9, 3, 16, 16}, 0, 1, 1, 1);
    const Tensor labels = from_vector(std::vector<int32_t>(9, 2), {9});
    cross_entropy(model.forward(images), labels).backward();
    std::vector<float> all;
    for (const auto& parameter : model.parameters()) {
      const Tensor g = parameter.tensor->grad().contiguous();
      all.insert(all.end(), g.data<float>(), g.data<float>() + g.numel());
    }
    gradients.push_back(all);
  }
  REQUIRE(gradients[0].size() > 1000);
  for (const auto& g : gradients) {
    REQUIRE(g.size() == gradients[0].size());
    CHECK(std::memcmp(g.data(), gradients[0].data(), g.size() * sizeof(float)) == 0);
  }
}
