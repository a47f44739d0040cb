#include "apps/pca/draws.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/cpu/rows.h"

// Loops of a constant length without calls, which the compiler vectorises; CMake gives this file the flags.
namespace pursuit::pca {

namespace {

// log u of u in (0, 1]: u = 2^e m with m in [sqrt 1/2, sqrt 2), and log m = 2 atanh((m - 1) / (m + 1)); the
// term left out is below 1e-9.
inline float log_of(float u) {
  const uint32_t bits = std::bit_cast<uint32_t>(u), shifted = bits - 0x3f3504f3u;  // sqrt 1/2
  const float e = float(int32_t(shifted) >> 23);
  const float m = std::bit_cast<float>((shifted & 0x007fffffu) + 0x3f3504f3u);
  const float s = (m - 1) / (m + 1), t = s * s;
  return e * 0.69314718f + 2 * s * (1 + t * (0.33333333f + t * (0.2f + t * (0.14285714f + t * 0.11111111f))));
}

}  // namespace

void draw_normals(uint64_t seed, uint64_t stream, int64_t first, float* z, int64_t n) {
  constexpr int pairs = int(normals_block) / 2;
  float words[normals_block], block[normals_block];
  for (int64_t at = 0; at < n; at += normals_block) {
    rows<float>().philox_uniforms(seed, stream, uint64_t(first + at), words, normals_block);
    for (int i = 0; i < pairs; ++i) {
      const float radius = std::sqrt(-2 * log_of(1 - words[2 * i]));
      // 2 pi v = (quarter + r) pi / 2 with r in [-1/2, 1/2]: Taylor series of sine and cosine at r pi / 2.
      const float turn = 4 * words[2 * i + 1];
      const int quarter = int(turn + 0.5f);
      const float a = 1.57079633f * (turn - float(quarter)), t = a * a;
      const float sine =
          a * (1 + t * (-1.6666667e-1f + t * (8.3333333e-3f + t * (-1.9841270e-4f + t * 2.7557319e-6f))));
      const float cosine = 1 + t * (-0.5f + t * (4.1666667e-2f + t * (-1.3888889e-3f + t * 2.4801587e-5f)));
      const bool odd = quarter & 1;
      const float x = odd ? sine : cosine, y = odd ? cosine : sine;
      block[2 * i] = radius * ((quarter + 1) & 2 ? -x : x);
      block[2 * i + 1] = radius * (quarter & 2 ? -y : y);
    }
    std::copy_n(block, std::min(n - at, normals_block), z + at);
  }
}

}  // namespace pursuit::pca
