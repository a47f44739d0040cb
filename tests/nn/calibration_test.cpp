#include "nn/calibration.h"

#include <doctest/doctest.h>

#include <cmath>

#include "engine/base/error.h"
#include "engine/ops.h"

using namespace pursuit;
using nn::Calibration;

namespace {

// Rows of two classes: the first one's probability, and the label.
Calibration two_classes(const std::vector<double>& p, const std::vector<int64_t>& labels) {
  std::vector<float> logits;
  for (const double first : p) {
    logits.push_back(float(std::log(first)));
    logits.push_back(float(std::log(1 - first)));
  }
  Calibration c;
  c.add(from_vector(logits, {int64_t(p.size()), 2}), from_vector(labels, {int64_t(p.size())}));
  return c;
}

}  // namespace

TEST_CASE("calibration: bins and error by hand") {
  // Confidences .75 .9 .95 .9 .6: bins (11/15, 12/15], (13/15, 14/15], (14/15, 1], and (8/15, 9/15].
  const Calibration c = two_classes({0.75, 0.9, 0.95, 0.1, 0.59}, {0, 0, 0, 0, 1});
  REQUIRE(c.bins.size() == 15);
  CHECK(c.count() == 5);
  CHECK(c.bins[11].count == 1);
  CHECK(c.bins[11].correct == 1);
  CHECK(c.bins[13].count == 2);
  CHECK(c.bins[13].correct == 1);  // of the fourth row the second class was predicted
  CHECK(c.bins[13].confidence == doctest::Approx(1.8));
  CHECK(c.bins[14].count == 1);
  CHECK(c.bins[8].count == 1);
  CHECK(c.bins[8].correct == 0);
  CHECK(c.error() == doctest::Approx((0.25 + 0.8 + 0.05 + 0.59) / 5));
}

TEST_CASE("calibration: batches add up, and a sure model that is right has no error") {
  Calibration c;
  for (int i = 0; i < 3; ++i)
    c.add(from_vector<float>({200, 0, -1e9f}, {1, 3}), from_vector<int64_t>({0}, {1}));
  CHECK(c.bins[14].count == 3);
  CHECK(c.error() == 0);
  // Three equal logits: confidence 1/3 is the upper edge of the fifth bin, the first class is predicted.
  c.add(from_vector<float>({1, 1, 1}, {1, 3}), from_vector<int64_t>({2}, {1}));
  CHECK(c.bins[4].count == 1);
  CHECK(c.error() == doctest::Approx(1.0 / 3 / 4));
}

TEST_CASE("calibration: nothing counted, and what cannot be counted") {
  Calibration c;
  CHECK(std::isnan(c.error()));
  CHECK_THROWS_AS(c.add(zeros({2, 3}), zeros({2})), Error);
  CHECK_THROWS_AS(c.add(zeros({2, 3}), zeros({3}, DType::i64)), Error);
  CHECK_THROWS_AS(c.add(full({1, 2}, NAN), zeros({1}, DType::i64)), Error);
}
