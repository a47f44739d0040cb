// Ours (engine/base/random.h) against cuRAND's Philox4x32-10, both of its makers: the generator of host code,
// and the functions of kernels, which the host's compiler takes as inline functions. Neither needs a GPU.
#include <curand.h>
#include <doctest/doctest.h>
#define QUALIFIERS static inline
#include <curand_kernel.h>

#include <vector>

#include "engine/base/random.h"

using namespace pursuit;

namespace {

const std::vector<uint64_t> seeds = {0, 1, 2, 42, 0xffffffff, 0x100000000, 0x123456789abcdef, ~uint64_t(0)};

void require(curandStatus_t status) { REQUIRE(status == CURAND_STATUS_SUCCESS); }

}  // namespace

TEST_CASE("curand: kernels' words of a seed, subsequence and offset are the seed's, stream's and word's") {
  const std::vector<uint64_t> streams = {0, 1, 7, 65535, 65536, 0xfffffffff, ~uint64_t(0)};
  const std::vector<uint64_t> offsets = {0, 1, 2, 3, 4, 5, 1023, 0x3fffffffc, 0x400000001, uint64_t(1) << 60};
  for (const uint64_t seed : seeds)
    for (const uint64_t stream : streams)
      for (const uint64_t offset : offsets) {
        CAPTURE(seed);
        CAPTURE(stream);
        CAPTURE(offset);
        curandStatePhilox4_32_10_t state;
        curand_init(seed, stream, offset, &state);
        for (uint64_t i = 0; i < 21; ++i) REQUIRE(curand(&state) == philox_word(seed, stream, offset + i));
      }
}

TEST_CASE("curand: the host generator's numbers are blocks of 65536 streams in turn") {
  constexpr uint64_t streams = 65536, count = 4096;
  curandGenerator_t generator;
  require(curandCreateGeneratorHost(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10));
  std::vector<unsigned> words(count);
  for (const uint64_t seed : seeds)
    for (const uint64_t offset : {uint64_t(0), uint64_t(5), 4 * streams - 8, 4 * streams, 40 * streams + 3}) {
      CAPTURE(seed);
      CAPTURE(offset);
      require(curandSetPseudoRandomGeneratorSeed(generator, seed));
      require(curandSetGeneratorOffset(generator, offset));
      require(curandGenerate(generator, words.data(), count));
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t at = offset + i, block = at / 4;
        REQUIRE(words[i] == philox(seed, block % streams, block / streams).v[at % 4]);
      }
    }
  require(curandDestroyGenerator(generator));
}
