// The sums of the simulated tensor cores when they truncate as Ampere's do. The expected numbers were
// computed by hand: terms are truncated at 2^-24 of the greatest power of 2 (Hopper: 2^-25), then the sum is
// truncated to f32.
#ifdef PURSUIT_SIMULATED
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "cuda/simulated/truncated_sum.h"

namespace {

// Products with 1.
float sum(float d, const std::vector<float>& terms) {
  const std::vector<float> ones(terms.size(), 1.0f);
  return simt::truncated_sum(simt::ampere, d, terms.data(), ones.data(), int(terms.size()));
}

}  // namespace

TEST_CASE("simulated tensor cores: terms below the last bit but one are cut off") {
  const float below = 0x1.fp-25f;
  CHECK(sum(1, {below, below, below, below}) == 1);  // 4 of them are nearly 2^-22
  CHECK(sum(-1, {-below, -below}) == -1);
  CHECK(sum(1, {-below}) == 1);  // each term is truncated toward 0, not down
  CHECK(sum(0, {1, below}) == 1);
  CHECK(sum(1, {0x1p-23f, below}) == 1 + 0x1p-23f);
  CHECK(sum(1, {0x1p-24f}) == 1);
  CHECK(sum(1, {0x1p-24f, 0x1p-24f}) == 1 + 0x1p-23f);
}

TEST_CASE("simulated tensor cores: Hopper's have a bit more") {
  const float a[] = {0x1p-25f, 0x1p-25f, 0x1p-25f, 0x1p-25f}, b[] = {1, 1, 1, 1};
  CHECK(simt::truncated_sum(simt::ampere, 1, a, b, 4) == 1);
  CHECK(simt::truncated_sum(simt::hopper, 1, a, b, 4) == 1 + 0x1p-23f);
}

TEST_CASE("simulated tensor cores: a product's power of 2 is that of its factors") {
  const float a[] = {1.5f, 0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f}, b[] = {1.5f, 1, 1, 1, 1};
  CHECK(simt::truncated_sum(simt::ampere, 0, a, b, 5) == 2.25f + 0x1p-22f);
  CHECK(sum(2.25f, {0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f}) == 2.25f);
}

TEST_CASE("simulated tensor cores: a sum that grows by a bit loses its last one") {
  CHECK(sum(1 + 0x1p-23f, {1}) == 2);
  CHECK(sum(1 + 0x1p-23f, {1, 0x1p-23f}) == 2 + 0x1p-22f);
  CHECK(sum(-1 - 0x1p-23f, {-1}) == -2);
}

TEST_CASE("simulated tensor cores: exact sums, zeros, NaN and infinity") {
  CHECK(sum(1, {-1}) == 0);
  CHECK(sum(0, {0, 0}) == 0);
  CHECK(sum(3, {0.5, -2}) == 1.5f);
  CHECK(sum(0x1p-126f, {0x1p-127f}) == 0x1.8p-126f);
  CHECK(std::isnan(sum(NAN, {1})));
  CHECK(std::isnan(sum(1, {INFINITY, -INFINITY})));
  CHECK(sum(1, {INFINITY}) == INFINITY);
}
#endif
