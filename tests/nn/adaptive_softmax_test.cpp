#include "nn/adaptive_softmax.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <memory>

#include "engine/ops.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

void fill(nn::AdaptiveSoftmax& model) {
  uint64_t stream = 0;
  for (const nn::NamedTensor& p : model.parameters())
    copy_values(p.tensor->detach(), normal(p.tensor->shape(), 0, 0.5, 1, ++stream));
}

}  // namespace

TEST_CASE("adaptive softmax: probabilities add up to 1, and the loss is the mean of the targets'") {
  nn::AdaptiveSoftmax model(16, 30, {5, 12}, 2, nn::OutputBias::head);
  fill(model);
  const Tensor x = uniform({9, 16}, -1, 1, 1, 50);
  const std::vector<double> log_p = model.log_prob(x).to_vector();
  for (size_t r = 0; r < 9; ++r) {
    double total = 0;
    for (size_t c = 0; c < 30; ++c) total += std::exp(log_p[r * 30 + c]);
    CHECK(total == doctest::Approx(1).epsilon(1e-6));
  }
  // Every cluster, none but the head, none but one tail, and the classes at the cutoffs.
  for (const std::vector<int32_t>& labels : {std::vector<int32_t>{0, 4, 5, 11, 12, 29, 7, 2, 20},
                                             {0, 1, 2, 3, 4, 0, 1, 2, 3},
                                             {12, 13, 29, 28, 15, 12, 12, 13, 14}}) {
    const Tensor y = from_vector(labels, {9});
    const std::vector<double> target = model.target_log_prob(x, y).to_vector();
    double mean = 0;
    for (size_t r = 0; r < 9; ++r) {
      CHECK(target[r] == doctest::Approx(log_p[r * 30 + size_t(labels[r])]).epsilon(1e-5));
      mean -= target[r] / 9;
    }
    CHECK(model.loss(x, y).item() == doctest::Approx(mean).epsilon(1e-5));
  }
}

TEST_CASE("adaptive softmax: biases of every word and cluster, in value and gradient") {
  for (const bool tied : {true, false})
    for (const std::vector<int64_t>& cutoffs : {std::vector<int64_t>{5, 12}, {}}) {
      CAPTURE(tied);
      CAPTURE(cutoffs.size());
      Tensor embedding = normal({30, 16}, 0, 0.5, 1, 90).to(DType::f64);
      embedding.requires_grad();
      const auto model = tied
                             ? std::make_unique<nn::AdaptiveSoftmax>(embedding, cutoffs, true)
                             : std::make_unique<nn::AdaptiveSoftmax>(16, 30, cutoffs, 1, nn::OutputBias::all);
      fill(*model);
      std::map<std::string, Tensor> p;
      for (const nn::NamedTensor& t : model->parameters()) p[t.name] = *t.tensor;
      const auto get = [&](const std::string& name) { return p.at(name).to(DType::f64); };
      const Tensor x = uniform({9, 16}, -1, 1, 1, 50).to(DType::f64);
      const std::vector<int32_t> labels = {0, 4, 5, 11, 12, 29, 7, 2, 20};
      // All weights and biases in one place, row c being class c's and the clusters' at the end.
      const auto by_hand = [&] {
        if (cutoffs.empty())
          return cross_entropy(
              linear(x, tied ? embedding : get("head.weight"), get(tied ? "bias" : "head.bias")),
              from_vector(labels, {9}));
        const auto rows = [&](int64_t begin, int64_t end, int tail) {
          if (tied) return std::pair(embedding.slice(0, begin, end), get("bias").slice(0, begin, end));
          const std::string name = "tail." + std::to_string(tail);
          if (tail < 0) return std::pair(get("head.weight").slice(0, 0, 5), get("head.bias").slice(0, 0, 5));
          return std::pair(matmul(get(name + ".1.weight"), get(name + ".0.weight")), get(name + ".1.bias"));
        };
        const auto [w, b] = rows(0, 5, -1);
        const Tensor cluster = tied ? get("head.cluster.weight") : get("head.weight").slice(0, 5, 7),
                     cluster_bias = tied ? get("head.cluster.bias") : get("head.bias").slice(0, 5, 7);
        const Tensor head = log_softmax(linear(x, concat({w, cluster}, 0), concat({b, cluster_bias}, 0)));
        const auto [w0, b0] = rows(5, 12, 0);
        const auto [w1, b1] = rows(12, 30, 1);
        const Tensor first = log_softmax(linear(x, w0, b0)), second = log_softmax(linear(x, w1, b1));
        Tensor total = zeros({}, DType::f64);
        for (int64_t r = 0; r < 9; ++r) {
          const int64_t y = labels[size_t(r)];
          const auto at = [&](const Tensor& t, int64_t c) {
            return t.slice(0, r, r + 1).slice(1, c, c + 1).reshape({});
          };
          total = total - (y < 5    ? at(head, y)
                           : y < 12 ? at(head, 5) + at(first, y - 5)
                                    : at(head, 6) + at(second, y - 12));
        }
        return total / 9.0;
      };
      const auto run = [&](const auto& loss) {
        for (auto& [name, t] : p) t.zero_grad();
        embedding.zero_grad();
        const Tensor value = loss();
        value.backward();
        std::vector<double> all = {value.item()};
        for (auto& [name, t] : p)
          for (const double g : t.grad().to_vector()) all.push_back(g);
        if (tied)
          for (const double g : embedding.grad().to_vector()) all.push_back(g);
        return all;
      };
      const auto want = run(by_hand), got = run([&] { return model->loss(x, from_vector(labels, {9})); });
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < got.size(); ++i)
        if (!(std::fabs(got[i] - want[i]) <= 1e-6 * (1 + std::fabs(want[i]))))
          FAIL("number " << i << " is " << got[i] << ", by hand " << want[i]);
      CHECK(-sum(model->target_log_prob(x, from_vector(labels, {9}))).item() / 9 == doctest::Approx(want[0]));
      for (const double total : sum(exp(model->log_prob(x)), {1}).to_vector())
        CHECK(total == doctest::Approx(1));
    }
}

GPU_TEST_CASE("adaptive softmax: biases on a GPU, in f32 and bf16") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto run = [&](Device device) {
      Tensor embedding = normal({3000, 16}, 0, 0.5, 1, 90).to(device).detach();
      embedding.requires_grad();
      nn::AdaptiveSoftmax model(embedding, {500, 1200}, true);
      fill(model);
      model.to(device);
      std::vector<int32_t> labels;
      for (int32_t i = 0; i < 40; ++i) labels.push_back(i % 7 == 3 ? -1 : i * 71);
      const Tensor loss =
          model.loss(uniform({40, 16}, -1, 1, 1, 50).to(dtype).to(device), from_vector(labels, {40}, device));
      loss.backward();
      std::vector<double> all = {loss.item()};
      for (const nn::NamedTensor& p : model.parameters())
        for (const double g : p.tensor->grad().to_vector()) all.push_back(g);
      return all;
    };
    const std::vector<double> want = run(cpu), got = run(cuda_device());
    REQUIRE(got.size() == want.size());
    const double bar = dtype == DType::f32 ? 1e-5 : 2e-2;
    for (size_t i = 0; i < got.size(); ++i)
      if (!(std::fabs(got[i] - want[i]) <= bar * (0.1 + std::fabs(want[i]))))
        FAIL("number " << i << " is " << got[i] << ", on the CPU " << want[i]);
  }
}

TEST_CASE("adaptive softmax: parameters have PyTorch's names and shapes") {
  nn::AdaptiveSoftmax model(32, 200, {20, 80});
  std::string all;
  for (const nn::NamedTensor& p : model.parameters()) all += p.name + p.tensor->shape().str() + " ";
  CHECK(all ==
        "head.weight[22, 32] tail.0.0.weight[8, 32] tail.0.1.weight[60, 8] tail.1.0.weight[2, 32] "
        "tail.1.1.weight[120, 2] ");
}

TEST_CASE("adaptive softmax: errors") {
  CHECK_THROWS_AS(nn::AdaptiveSoftmax(16, 30, {12, 5}), Error);
  CHECK_THROWS_AS(nn::AdaptiveSoftmax(16, 30, {5, 30}), Error);
  CHECK_THROWS_AS(nn::AdaptiveSoftmax(16, 30, {0}), Error);
  CHECK_THROWS_AS(nn::AdaptiveSoftmax(16, 30, {5, 12, 20}),
                  Error);  // the third cluster would project to nothing
  nn::AdaptiveSoftmax model(16, 30, {5});
  CHECK_THROWS_AS(model.loss(zeros({2, 16}), from_vector<int32_t>({0, 30}, {2})), Error);
  CHECK_THROWS_AS(model.loss(zeros({2, 16}), from_vector<int32_t>({0, -2}, {2})), Error);
  CHECK_THROWS_AS(model.loss(zeros({2, 16}), from_vector<int32_t>({0}, {1})), Error);
  CHECK_THROWS_AS(model.loss(zeros({2, 8}), from_vector<int32_t>({0, 1}, {2})), Error);
}
