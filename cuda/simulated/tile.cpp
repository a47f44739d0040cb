#include <cstdlib>
#include <limits>
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

bool truncates() {
  static const bool given = [] {
    const char* set = std::getenv("SIMT_TENSOR_CORES");
    const std::string mode = set ? set : "nearest";
    if (mode != "nearest" && mode != "truncate")
      pursuit::fail("simt", "SIMT_TENSOR_CORES is '" + mode + "'; known are nearest and truncate");
    return mode == "truncate";
  }();
  return given;
}

}  // namespace

float truncated_sum(float d, const double* products, int n) {
  // Each truncated term is an integer multiple of the unit, below 2^24 units, so their sum in f64 is exact.
  int greatest = std::numeric_limits<int>::min();
  double plain = double(d);
  const auto look = [&](double x) {
    if (x != 0 && std::isfinite(x)) greatest = std::max(greatest, std::ilogb(x));
  };
  look(double(d));
  for (int k = 0; k < n; ++k) {
    look(products[k]);
    plain += products[k];
  }
  if (!std::isfinite(plain) || greatest == std::numeric_limits<int>::min()) return float(plain);
  const int unit = greatest - 23;
  const auto cut = [&](double x) { return std::trunc(std::ldexp(x, -unit)); };
  double sum = cut(double(d));
  for (int k = 0; k < n; ++k) sum += cut(products[k]);
  return toward_zero(std::ldexp(sum, unit));
}

namespace {

// d [16, 8] += a [16, depth] b [depth, 8], for this lane's four elements of d.
template <int depth, class A, class B> void add_product(float* d, A a, B b) {
  const int g = lane() / 4, t = lane() % 4;
  if (lane() == 0) count_multiply_adds(16 * 8 * depth);
  float rows[2][depth], columns[2][depth];
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < depth; ++k) {
      rows[i][k] = a(g + i * 8, k);
      columns[i][k] = b(k, 2 * t + i);
    }
  for (int i = 0; i < 4; ++i) {
    double products[depth], sum = double(d[i]);  // hardware also adds in a wider type
    for (int k = 0; k < depth; ++k) products[k] = double(rows[i / 2][k]) * double(columns[i % 2][k]);
    if (truncates()) {
      for (int k = 0; k < depth; k += depth / 2) d[i] = truncated_sum(d[i], products + k, depth / 2);
      continue;
    }
    for (double product : products) sum += product;
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
