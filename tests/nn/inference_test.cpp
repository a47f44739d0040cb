#include "nn/inference.h"

#include <doctest/doctest.h>

#include <cstring>

#include "engine/core/memory.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/work.h"
#include "engine/inspect/call_times.h"
#include "engine/ops.h"
#include "nn/init.h"
#include "nn/vit.h"

using namespace pursuit;

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && a.numel() > 0 &&
         std::memcmp(a.contiguous().raw(), b.contiguous().raw(), size_t(a.bytes())) == 0;
}

struct Small {
  nn::VisionTransformer model{config()};
  static nn::VitConfig config() {
    nn::VitConfig c;
    c.image = 32, c.patch = 4, c.dim = 48, c.depth = 2, c.heads = 3, c.classes = 10;
    return c;
  }
  explicit Small(uint64_t seed) {
    nn::initialise(model, nn::Init::timm, seed);
    for (const nn::NamedTensor& p : model.parameters()) *p.tensor = p.tensor->detach();
  }
};

// Logits, and the loss's gradient of the pictures, as an attack takes it.
struct Results {
  Tensor logits, gradient;
};
Results results_of(const nn::VisionTransformer& model, int64_t batch, DType dtype) {
  Tensor images = normal({batch, 3, 32, 32}, 0, 1, 7, 1).to(dtype).detach();
  images.requires_grad();
  const Tensor logits = model(images);
  sum(logits.to(DType::f32)).backward();
  NoGrad off;
  return {model(images.detach()), images.grad()};
}

}  // namespace

TEST_CASE("inference: kept factors give the bits of unkept ones, forward and an attack's gradient") {
  const Small a(1), b(2);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t batch : {1, 5}) {
      CAPTURE(batch);
      CAPTURE(name_of(dtype));
      const Results first = results_of(a.model, batch, dtype), second = results_of(b.model, batch, dtype);
      CHECK_FALSE(same_bits(first.logits, second.logits));
      const nn::Inference inference(a.model);
      const int64_t before_all = memory_stats(cpu).allocated;
      for (int i = 0; i < 2; ++i) {  // made, and found again
        const Results kept = results_of(a.model, batch, dtype);
        CHECK(same_bits(kept.logits, first.logits));
        CHECK(same_bits(kept.gradient, first.gradient));
      }
      // At least one byte a parameter stays, or nothing was kept.
      CHECK(memory_stats(cpu).allocated - before_all > a.model.parameter_count());
      // What is written in between is seen.
      const auto to = a.model.parameters(), from = b.model.parameters();
      std::vector<Tensor> before;
      for (size_t i = 0; i < to.size(); ++i) {
        before.push_back(empty_like(*to[i].tensor));
        copy_values(before.back(), *to[i].tensor);
        copy_values(*to[i].tensor, *from[i].tensor);
      }
      const Results other = results_of(a.model, batch, dtype);
      CHECK(same_bits(other.logits, second.logits));
      CHECK(same_bits(other.gradient, second.gradient));
      for (size_t i = 0; i < to.size(); ++i) copy_values(*to[i].tensor, before[i]);
    }
  }
}

TEST_CASE("inference: a weight's copy in another type belongs to whom it was given") {
  const Small a(1), b(2);
  const nn::Inference inference(a.model);
  NoGrad off;
  const Tensor weight = a.model.parameters()[0].tensor->detach(),
               other = b.model.parameters()[0].tensor->detach();
  const Tensor first = weight.to(DType::bf16), again = weight.to(DType::bf16);
  const Tensor kept = empty_like(first);
  copy_values(kept, first);
  copy_values(weight, other);
  const Tensor second = weight.to(DType::bf16);
  CHECK(same_bits(first, kept));
  CHECK(same_bits(again, kept));
  CHECK(same_bits(second, other.to(DType::bf16)));
  copy_values(second, kept);
  CHECK(same_bits(weight.to(DType::bf16), other.to(DType::bf16)));
}

TEST_CASE("inference: the multiply-adds of a linear layer are counted by its sizes") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const int64_t rows : {1, 3, 70}) {
      const Tensor x = normal({rows, 24}, 0, 1, 1, 1).to(dtype), w = normal({50, 24}, 0, 1, 1, 2).to(dtype);
      const int64_t before = multiply_adds_done;
      linear(x, w, {});
      CHECK(multiply_adds_done - before == rows * 24 * 50);
    }
}

TEST_CASE("inference: times of calls, each without the calls inside it") {
  const Small small(1);
  const Tensor images = normal({2, 3, 32, 32}, 0, 1, 7, 1);
  const CallTimes times;
  small.model(images);
  double sum = 0;
  for (const auto& [name, seconds] : times.seconds()) {
    CHECK(seconds >= 0);
    sum += seconds;
  }
  CHECK(sum > 0);
  for (const char* name : {"linear", "mlp", "attention", "layer_norm", "patchify"})
    CHECK(times.seconds().contains(name));
}

TEST_CASE("inference: attention gives the same bits on any number of threads") {
  const int threads = num_threads();
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int64_t n : {64, 197, 520})
      for (const bool causal : {false, true}) {
        CAPTURE(name_of(dtype));
        CAPTURE(n);
        CAPTURE(causal);
        const Tensor qkv = normal({1, n, 3, 3, 16}, 0, 1, 1, 1).to(dtype);
        set_num_threads(1);
        const Tensor alone = attention(qkv, {.causal = causal});
        for (const int several : {2, 5, 16}) {
          set_num_threads(several);
          CHECK(same_bits(attention(qkv, {.causal = causal}), alone));
        }
      }
  set_num_threads(threads);
}

TEST_CASE("inference: a linear layer gives the same bits on any number of threads") {
  const int threads = num_threads();
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int64_t rows : {1, 4, 20, 33}) {
      CAPTURE(name_of(dtype));
      CAPTURE(rows);
      const Tensor x = normal({rows, 300}, 0, 1, 1, 1).to(dtype), w = normal({70, 300}, 0, 1, 1, 2).to(dtype);
      set_num_threads(1);
      const Tensor alone = linear(x, w, {});
      for (const int several : {2, 3, 16}) {
        set_num_threads(several);
        CHECK(same_bits(linear(x, w, {}), alone));
      }
    }
  set_num_threads(threads);
}
