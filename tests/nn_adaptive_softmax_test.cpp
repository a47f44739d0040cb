#include <doctest/doctest.h>

#include <cmath>

#include "engine/ops.h"
#include "nn/adaptive_softmax.h"

using namespace pursuit;

namespace {

void fill(nn::AdaptiveSoftmax& model) {
  uint64_t stream = 0;
  for (const nn::NamedTensor& p : model.parameters())
    copy_values(p.tensor->detach(), normal(p.tensor->shape(), 0, 0.5, 1, ++stream));
}

}  // namespace

TEST_CASE("adaptive softmax: probabilities add up to 1, and the loss is the mean of the targets'") {
  nn::AdaptiveSoftmax model(16, 30, {5, 12}, 2, true);
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
