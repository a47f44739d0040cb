#pragma once
#include <cmath>
#include <cstdint>

#include "engine/base/hd.h"

namespace pursuit {

// Philox4x32-10, a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). Word i of a stream is a pure function of (seed, stream, i), so CPU and CUDA agree bit for bit,
// threads need no shared state, and a run resumes by remembering three integers.
struct PhiloxBlock {
  uint32_t v[4];

  // Word i % 4 without indexing: a GPU would place an indexed array in local memory.
  HD uint32_t word(uint64_t i) const {
    const uint32_t low = i & 1 ? v[1] : v[0], high = i & 1 ? v[3] : v[2];
    return i & 2 ? high : low;
  }
};

HD inline PhiloxBlock philox(uint64_t seed, uint64_t stream, uint64_t block) {
  uint32_t c0 = uint32_t(block), c1 = uint32_t(block >> 32), c2 = uint32_t(stream),
           c3 = uint32_t(stream >> 32);
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t(0xD2511F53u) * c0, p1 = uint64_t(0xCD9E8D57u) * c2;
    const uint32_t n0 = uint32_t(p1 >> 32) ^ c1 ^ k0, n2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
    c1 = uint32_t(p1);
    c3 = uint32_t(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Word i of the stream.
HD inline uint32_t philox_word(uint64_t seed, uint64_t stream, uint64_t i) {
  return philox(seed, stream, i / 4).word(i);
}

// The random numbers of one operator for one batch: words of a stream from `first` on.
struct Draws {
  uint64_t stream, first;
};
// `counter` (in memory; null: zeros): [0] is added to the stream; [1] is the index of the batch within its
// step. Batch b starts at word b * count, so that the batches of a step draw the same words as one batch that
// holds all their samples.
HD inline Draws draws_of(uint64_t stream, int64_t count, const int64_t* counter) {
  if (!counter) return {stream, 0};
  return {stream + uint64_t(counter[0]), uint64_t(count) * uint64_t(counter[1])};
}

// Uniform in [0, 1) with 24 bits, exact in f32.
HD inline float to_uniform(uint32_t word) { return float(word >> 8) * 0x1p-24f; }

HD inline float philox_uniform(uint64_t seed, uint64_t stream, uint64_t i) {
  return to_uniform(philox_word(seed, stream, i));
}

// Standard normal number i by Box-Muller from words 2i and 2i+1.
HD inline float philox_normal(uint64_t seed, uint64_t stream, uint64_t i) {
  const PhiloxBlock b = philox(seed, stream, i / 2);
  const float u = 1.0f - to_uniform(b.word(2 * i)), v = to_uniform(b.word(2 * i + 1));
#ifdef __CUDA_ARCH__
  const float cosine = cospif(2 * v);  // cosf keeps local memory for large angles
#else
  const float cosine = cosf(6.2831853f * v);
#endif
  return sqrtf(-2.0f * logf(u)) * cosine;
}

// Sequential reader of one stream for host code: augmentation, shuffling, sampling.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  uint32_t next() {
    if (used_ == 4) {
      block_ = philox(seed_, stream_, counter_++);
      used_ = 0;
    }
    return block_.v[used_++];
  }
  double uniform() {  // [0, 1) with 53 bits
    const uint64_t high = next(), low = next();
    return double((high << 21) | (low >> 11)) * 0x1p-53;
  }
  double uniform(double lo, double hi) { return lo + (hi - lo) * uniform(); }
  int64_t below(int64_t n) { return int64_t(uniform() * double(n)); }  // 0 .. n-1
  bool flip(double p = 0.5) { return uniform() < p; }
  double normal() {
    const double u = 1.0 - uniform(), v = uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  }

 private:
  uint64_t seed_, stream_, counter_ = 0;
  PhiloxBlock block_{};
  int used_ = 4;
};

}  // namespace pursuit
