#include <array>
#include <cmath>

#include "data/corruption_families.h"

namespace pursuit::data {
namespace {

// A Poisson variate by inversion: the k at which the cumulative probability passes u. `zero` is exp(-rate).
// Rates are at most 60 here, where exp(-rate) is far from the smallest double.
int poisson(double rate, double zero, double u) {
  double probability = zero, cumulative = zero;
  int k = 0;
  while (u >= cumulative && k < 1000) {
    probability *= rate / ++k;
    cumulative += probability;
  }
  return k;
}

}  // namespace

FloatImage gaussian_noise(FloatImage image, const CorruptionSetting& setting) {
  constexpr double sigma[] = {0.08, 0.12, 0.18, 0.26, 0.38};
  for (float& v : image.values) v += float(sigma[setting.severity] * setting.random.normal());
  return image;
}

FloatImage shot_noise(FloatImage image, const CorruptionSetting& setting) {
  constexpr double photons[] = {60, 25, 12, 5, 3};  // of a white pixel
  const double count = photons[setting.severity];
  std::array<double, 256> zero;  // indexed by 8-bit value
  for (size_t v = 0; v < zero.size(); ++v) zero[v] = std::exp(-count * double(v) / 255);
  for (float& v : image.values) {
    const size_t byte = size_t(std::lround(v * 255));
    v = float(poisson(count * v, zero[byte], setting.random.uniform()) / count);
  }
  return image;
}

FloatImage impulse_noise(FloatImage image, const CorruptionSetting& setting) {
  constexpr double share[] = {0.03, 0.06, 0.09, 0.17, 0.27};
  const double hit = share[setting.severity];
  for (float& v : image.values) {
    const double u = setting.random.uniform();
    if (u < hit) v = u < hit / 2 ? 0.0f : 1.0f;
  }
  return image;
}

}  // namespace pursuit::data
