#pragma once
#include <cstdint>

#include "engine/base/streams.h"

namespace pursuit::pca {

// What is drawn at random, each from a stream of its own.
enum class Draw : uint64_t { tokens, wishart, start, covariance };

// point: the place in a sweep; step: from 1; run: below 4096.
inline uint64_t stream_of(Draw what, int64_t point, int64_t step, int64_t run) {
  const uint64_t place = (uint64_t(point) << 32 | uint64_t(step)) << 12 | uint64_t(run);
  return streams::prompts.at(place << 2 | uint64_t(what));
}

// z[i] = standard normal number first + i of the stream, by Box-Muller: numbers 2k and 2k + 1 are the cosine
// and the sine of words 2k and 2k + 1, in f32. Several times as fast as pursuit::normal, whose numbers are
// others. `first` is a multiple of normals_block.
constexpr int64_t normals_block = 512;
void draw_normals(uint64_t seed, uint64_t stream, int64_t first, float* z, int64_t n);

}  // namespace pursuit::pca
