#include "engine/base/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "engine/core/tensor.h"

using namespace pursuit;

namespace {

struct Moments {
  double mean, variance;
};

Moments moments(const std::vector<double>& values) {
  double mean = 0, variance = 0;
  for (double v : values) mean += v / double(values.size());
  for (double v : values) variance += (v - mean) * (v - mean) / double(values.size());
  return {mean, variance};
}

void check_block(const PhiloxBlock& b, uint32_t v0, uint32_t v1, uint32_t v2, uint32_t v3) {
  CHECK(b.v[0] == v0);
  CHECK(b.v[1] == v1);
  CHECK(b.v[2] == v2);
  CHECK(b.v[3] == v3);
}

}  // namespace

// The known answers of the Random123 distribution for philox4x32-10; counter words are (block, stream).
TEST_CASE("random: philox gives its authors' numbers") {
  check_block(philox(0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  check_block(philox(~0ull, ~0ull, ~0ull), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
  check_block(philox(0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull), 0xd16cfe09,
              0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST_CASE("random: words and sequences read the same blocks") {
  Random random(7, 9);
  for (uint64_t i = 0; i < 9; ++i) CHECK(random.next() == philox_word(7, 9, i));
  CHECK(philox_word(7, 9, 0) != philox_word(7, 10, 0));
  CHECK(philox_word(7, 9, 0) != philox_word(8, 9, 0));
}

TEST_CASE("random: uniform numbers have the mean, the variance and the range they should") {
  const int64_t n = 200000;
  const std::vector<double> values = uniform({n}, -1, 3, 1, 2).to_vector();
  for (double v : values) REQUIRE((v >= -1 && v <= 3));
  const Moments m = moments(values);
  // Four standard deviations of the estimates.
  CHECK(std::fabs(m.mean - 1) < 4 * std::sqrt(16.0 / 12 / double(n)));
  CHECK(std::fabs(m.variance - 16.0 / 12) < 4 * 16 * std::sqrt(1.0 / 180 / double(n)));
  CHECK(uniform({5}, 0, 1, 3, 4).to_vector() == uniform({5}, 0, 1, 3, 4).to_vector());
  CHECK(uniform({5}, 0, 1, 3, 4).to_vector() != uniform({5}, 0, 1, 3, 5).to_vector());
}

TEST_CASE("random: normal numbers are normal and not dependent in pairs") {
  const int64_t n = 200000;
  const std::vector<double> values = normal({n}, 2, 3, 5, 6).to_vector();
  const Moments m = moments(values);
  CHECK(std::fabs(m.mean - 2) < 4 * 3 / std::sqrt(double(n)));
  CHECK(std::fabs(m.variance - 9) < 4 * 9 * std::sqrt(2.0 / double(n)));
  double beyond = 0, product = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    REQUIRE(std::isfinite(values[i]));
    beyond += std::fabs(values[i] - 2) > 6;
    if (i % 2) product += (values[i] - 2) * (values[i - 1] - 2) / 9;
  }
  CHECK(beyond / double(n) == doctest::Approx(0.0455).epsilon(0.05));
  CHECK(std::fabs(product) < 4 * std::sqrt(double(n) / 2));
}

TEST_CASE("random: the host's reader") {
  Random random(3);
  std::set<int64_t> seen;
  int64_t heads = 0;
  for (int i = 0; i < 4000; ++i) {
    const int64_t v = random.below(7);
    REQUIRE((v >= 0 && v < 7));
    seen.insert(v);
    const double u = random.uniform();
    REQUIRE((u >= 0 && u < 1));
    heads += random.flip();
  }
  CHECK(seen.size() == 7);
  CHECK(std::abs(heads - 2000) < 130);
}
