// The sums of the simulated tensor cores when they truncate as the hardware does. The expected numbers were
// computed by hand: terms are truncated at 2^-23 of the largest, then the sum is truncated to f32.
#ifdef PURSUIT_SIMULATED
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "cuda/simulated/truncated_sum.h"

namespace {

float sum(float d, const std::vector<double>& products) {
  return simt::truncated_sum(d, products.data(), int(products.size()));
}

}  // namespace

TEST_CASE("simulated tensor cores: terms below the last bit are cut off") {
  const double below = 0x1.fp-24;
  CHECK(sum(1, {below, below, below, below}) == 1);  // 4 of them are nearly 2 last bits
  CHECK(sum(-1, {-below, -below}) == -1);
  CHECK(sum(1, {-below}) == 1);  // each term is truncated toward 0, not down
  CHECK(sum(0, {1, below}) == 1);
  CHECK(sum(1, {0x1p-23, below}) == 1 + 0x1p-23f);
}

TEST_CASE("simulated tensor cores: a sum that grows by a bit loses its last one") {
  CHECK(sum(1 + 0x1p-23f, {1}) == 2);
  CHECK(sum(1 + 0x1p-23f, {1, 0x1p-23}) == 2 + 0x1p-22f);
  CHECK(sum(-1 - 0x1p-23f, {-1}) == -2);
}

TEST_CASE("simulated tensor cores: exact sums, zeros, NaN and infinity") {
  CHECK(sum(1, {-1}) == 0);
  CHECK(sum(0, {0, 0}) == 0);
  CHECK(sum(3, {0.5, -2}) == 1.5f);
  CHECK(sum(0x1p-126f, {0x1p-127}) == 0x1.8p-126f);
  CHECK(std::isnan(sum(NAN, {1})));
  CHECK(std::isnan(sum(1, {INFINITY, -INFINITY})));
  CHECK(sum(1, {INFINITY}) == INFINITY);
}
#endif
