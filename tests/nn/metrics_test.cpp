#include "nn/metrics.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace pursuit;
using nn::ConfusionMatrix;

namespace {

Tensor ids(const std::vector<int32_t>& values) { return from_vector(values, {int64_t(values.size())}); }

}  // namespace

TEST_CASE("confusion matrix: counts, intersection over union, accuracies") {
  ConfusionMatrix m(4, 255);
  m.add(ids({0, 0, 1, 1, 2}), ids({0, 0, 0, 1, 255}));
  m.add(ids({2}), ids({1}));
  CHECK(m.total() == 5);
  CHECK(m.at(0, 0) == 2);
  CHECK(m.at(0, 1) == 1);
  CHECK(m.at(1, 2) == 1);
  const std::vector<double> iou = m.iou(), accuracy = m.accuracy();
  CHECK(iou[0] == doctest::Approx(2.0 / 3));
  CHECK(iou[1] == doctest::Approx(1.0 / 3));
  CHECK(iou[2] == 0);   // predicted, never there
  CHECK(iou[3] == -1);  // neither
  CHECK(accuracy[1] == doctest::Approx(0.5));
  CHECK(accuracy[2] == -1);
  CHECK(m.mean_iou() == doctest::Approx(1.0 / 3));
  CHECK(m.mean_accuracy() == doctest::Approx((2.0 / 3 + 0.5) / 2));
  CHECK(m.overall_accuracy() == doctest::Approx(0.6));
}

TEST_CASE("confusion matrix: nothing counted, and what cannot be counted") {
  ConfusionMatrix m(3);
  CHECK(m.mean_iou() == -1);
  CHECK(m.overall_accuracy() == -1);
  CHECK_THROWS_AS(m.add(ids({0}), ids({3})), Error);
  CHECK_THROWS_AS(m.add(ids({3}), ids({0})), Error);
  CHECK_THROWS_AS(m.add(ids({0, 1}), ids({0})), Error);
  CHECK_THROWS_AS(m.add(zeros({1}), ids({0})), Error);
  CHECK_THROWS_AS(m.add(ids({0, 1, 2}), ids({0, 1, 7})), Error);
  CHECK(m.total() == 0);  // nor are the pairs before it
  CHECK_THROWS_AS(ConfusionMatrix(0), Error);
}

TEST_CASE("top k: the order of equal logits is that of the classes, NaN is wrong") {
  const Tensor logits = from_vector<float>({1, 3, 2, 0,  //
                                            5, 5, 5, 5,  //
                                            0, NAN, 1, 2},
                                           {3, 4});
  CHECK(nn::top_k_correct(logits, ids({1, 0, 3}), 1) == 3);
  CHECK(nn::top_k_correct(logits, ids({2, 1, 2}), 1) == 0);
  CHECK(nn::top_k_correct(logits, ids({2, 1, 2}), 2) == 3);
  CHECK(nn::top_k_correct(logits, ids({0, 3, 1}), 3) == 1);
  CHECK(nn::top_k_correct(logits, ids({0, 3, 1}), 4) == 2);
  CHECK_THROWS_AS(nn::top_k_correct(logits, ids({0, 0, 4}), 1), Error);
  CHECK_THROWS_AS(nn::top_k_correct(logits, ids({0, 0}), 1), Error);
}

TEST_CASE("average precision: by hand, ties share a threshold") {
  // By descending score: + - + + -; precisions at the positives 1, 2/3, 3/4.
  CHECK(nn::average_precision({0.9, 0.1, 0.8, 0.7, 0.6}, {true, false, false, true, true}) ==
        doctest::Approx((1 + 2.0 / 3 + 3.0 / 4) / 3));
  // One threshold takes all: precision is the share of positives.
  CHECK(nn::average_precision({1, 1, 1, 1}, {true, false, false, false}) == doctest::Approx(0.25));
  CHECK(nn::average_precision({3, 2, 2, 1}, {false, true, false, true}) ==
        doctest::Approx(0.5 / 3 + 0.5 * 2 / 4));
  CHECK(nn::average_precision({2, 1}, {true, false}) == 1);
  CHECK(std::isnan(nn::average_precision({1, 2}, {false, false})));
  CHECK_THROWS_AS(nn::average_precision({1, 2}, {true}), Error);
  CHECK_THROWS_AS(nn::average_precision({1, NAN}, {true, false}), Error);
}
