#include <cstdlib>
#include <string>

#include "cuda/simulated/simt.h"
#include "cuda/simulated/traffic.h"
#include "cuda/simulated/truncated_sum.h"
#include "engine/base/error.h"

namespace simt {

namespace {

float high_half(uint32_t pair) { return value_of<float>(words_of(pair & 0xffff0000u)); }
float low_half(uint32_t pair) { return value_of<float>(words_of(pair << 16)); }
// The instruction uses 10 bits of the mantissa.
float tf32(uint32_t bits) { return value_of<float>(words_of(bits & 0xffffe000u)); }

Words six(const uint32_t* a, const uint32_t* b) { return {{a[0], a[1], a[2], a[3], b[0], b[1]}}; }

// x rounded toward zero to f32.
float toward_zero(double x) {
  const float y = float(x);
  return std::fabs(double(y)) > std::fabs(x) ? std::nextafter(y, 0.0f) : y;
}

// The exponent of the leading bit, of subnormal numbers and 0 that of the least normal one.
int exponent_of(float x) { return std::max(int(words_of(x).w[0] >> 23 & 255) - 127, -126); }

}  // namespace

const TensorCores& tensor_cores() {
  static const TensorCores chosen = [] {
    const char* set = std::getenv("SIMT_TENSOR_CORES");
    const std::string name = set ? set : "nearest";
    if (name == "ampere") return ampere;
    if (name == "hopper") return hopper;
    if (name != "nearest")
      pursuit::fail("simt", "SIMT_TENSOR_CORES is '" + name + "'; known are nearest, ampere and hopper");
    return TensorCores{};
  }();
  return chosen;
}

float truncated_sum(const TensorCores& cores, float d, const float* a, const float* b, int n) {
  double plain = double(d);
  int greatest = exponent_of(d);
  for (int k = 0; k < n; ++k) {
    plain += double(a[k]) * double(b[k]);
    greatest = std::max(greatest, exponent_of(a[k]) + exponent_of(b[k]));
  }
  if (!std::isfinite(plain)) return float(plain);
  // A term is below 2^28 units.
  const double units = std::ldexp(1.0, cores.bits - greatest);
  auto sum = int64_t(double(d) * units);
  for (int k = 0; k < n; ++k) sum += int64_t(double(a[k]) * double(b[k]) * units);
  return toward_zero(std::ldexp(double(sum), greatest - cores.bits));
}

namespace {

// d [16, 8] += a [16, depth] b [depth, 8], for this lane's four elements of d.
template <int depth, class A, class B> void add_product(float* d, A a, B b) {
  const int g = lane() / 4, t = lane() % 4;
  if (lane() == 0) count_multiply_adds(16 * 8 * depth);
  const TensorCores& cores = tensor_cores();
  float rows[2][depth], columns[2][depth];
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < depth; ++k) {
      rows[i][k] = a(g + i * 8, k);
      columns[i][k] = b(k, 2 * t + i);
    }
  for (int i = 0; i < 4; ++i) {
    const float *row = rows[i / 2], *column = columns[i % 2];
    if (cores.truncate) {
      const int step = depth / cores.steps;
      for (int k = 0; k < depth; k += step) d[i] = truncated_sum(cores, d[i], row + k, column + k, step);
      continue;
    }
    double sum = double(d[i]);  // hardware also adds in a wider type
    for (int k = 0; k < depth; ++k) sum += double(row[k]) * double(column[k]);
    d[i] = float(sum);
  }
}

}  // namespace

void mma_bf16(float* d, const uint32_t* a, const uint32_t* b) {
  const Words* all = exchange(~0u, "mma bf16", six(a, b));
  const auto half = [](uint32_t pair, int k) { return k % 2 ? high_half(pair) : low_half(pair); };
  add_product<16>(
      d, [&](int row, int k) { return half(all[row % 8 * 4 + k % 8 / 2].w[row / 8 + k / 8 * 2], k); },
      [&](int k, int col) { return half(all[col * 4 + k % 8 / 2].w[4 + k / 8], k); });
}

void mma_tf32(float* d, const uint32_t* a, const uint32_t* b) {
  const Words* all = exchange(~0u, "mma tf32", six(a, b));
  add_product<8>(
      d, [&](int row, int k) { return tf32(all[row % 8 * 4 + k % 4].w[row / 8 + k / 4 * 2]); },
      [&](int k, int col) { return tf32(all[col * 4 + k % 4].w[4 + k / 4]); });
}

void load_matrices(uint32_t* v, const void* row, bool transposed) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) throw_misaligned("ldmatrix");
  const Words* all = exchange(~0u, "ldmatrix", words_of(row));
  const int g = lane() / 4, t = lane() % 4;
  for (int m = 0; m < 4; ++m) {
    const auto at = [&](int i, int j) { return uint32_t(value_of<const uint16_t*>(all[m * 8 + i])[j]); };
    v[m] = transposed ? at(2 * t, g) | at(2 * t + 1, g) << 16 : at(g, 2 * t) | at(g, 2 * t + 1) << 16;
  }
}

}  // namespace simt
