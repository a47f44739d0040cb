#include "apps/pca/threefry.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace pursuit::pca {

namespace {

// Newton's method for erf x = |y| < 1: erf is concave there, so x rises from 0 to the root.
double inverse_erf(double y) {
  double x = 0, step = 0;
  do {
    step = (std::fabs(y) - std::erf(x)) * std::exp(x * x) / (2 * std::numbers::inv_sqrtpi);
    x += step;
  } while (step > 1e-12);
  return std::copysign(x, y);
}

}  // namespace

Words threefry(Words key, Words counter) {
  constexpr int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1bd11bdau};
  uint32_t x = counter[0] + keys[0], y = counter[1] + keys[1];
  for (uint32_t group = 1; group <= 5; ++group) {
    for (const int rotation : rotations[(group - 1) % 2]) {
      x += y;
      y = std::rotl(y, rotation) ^ x;
    }
    x += keys[group % 3];
    y += keys[(group + 1) % 3] + group;
  }
  return {x, y};
}

std::vector<double> threefry_normals(Words key, int64_t n) {
  std::vector<double> z;
  for (int64_t i = 0; i < n; ++i) {
    const Words words = threefry(key, {uint32_t(i >> 32), uint32_t(i)});
    const double uniform = double((words[0] ^ words[1]) >> 9) * 0x1p-22 - 1 + 0x1p-24;  // in (-1, 1)
    z.push_back(std::numbers::sqrt2 * inverse_erf(uniform));
  }
  return z;
}

}  // namespace pursuit::pca
