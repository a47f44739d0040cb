#include "cuda/simulated/simt.h"
#include "cuda/simulated/traffic.h"

namespace simt {

namespace {

float high_half(uint32_t pair) { return value_of<float>(words_of(pair & 0xffff0000u)); }
float low_half(uint32_t pair) { return value_of<float>(words_of(pair << 16)); }
// The instruction reads 10 bits of the mantissa.
float tf32(uint32_t bits) { return value_of<float>(words_of(bits & 0xffffe000u)); }

Words six(const uint32_t* a, const uint32_t* b) { return {{a[0], a[1], a[2], a[3], b[0], b[1]}}; }

// d [16, 8] += a [16, depth] b [depth, 8]: this lane's four numbers.
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
    double sum = double(d[i]);  // the hardware adds in a wider type of its own
    for (int k = 0; k < depth; ++k) sum += double(rows[i / 2][k]) * double(columns[i % 2][k]);
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
