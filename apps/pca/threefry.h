#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace pursuit::pca {

// The random numbers of the published scripts, which draw by JAX: Threefry-2x32 with 20 rounds (Salmon,
// Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), with the counters of JAX's
// default (jax_threefry_partitionable).
using Words = std::array<uint32_t, 2>;
Words threefry(Words key, Words counter);

// Row i of jax.random.split(key); the key of jax.random.PRNGKey(0) is {0, 0}.
inline Words split(Words key, uint32_t i) { return threefry(key, {0, i}); }

// The first n numbers of jax.random.normal(key, ..., float32), not rounded to f32.
std::vector<double> threefry_normals(Words key, int64_t n);

}  // namespace pursuit::pca
