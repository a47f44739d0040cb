#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

// The part of CUDA C++ that the kernels use, for the host compiler: blocks run one after another, and the
// threads of a block as fibers that switch at barriers. Every launch runs in several orders of threads and
// blocks, starting from the same memory, and must give the same bits; see README.md.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint3 {
  unsigned x, y, z;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace simt {

// Shared memory per block: of any kernel, and the maximum of one that was allowed more, which is 227 KiB, as
// on sm_90, or SIMT_SHARED from the environment (101376 as on sm_86 and sm_89).
constexpr size_t plain_shared = 48 * 1024;
size_t most_shared();

// So few that kernels with a block for each have to loop.
constexpr int multiprocessors = 3;
constexpr int resident_blocks = 1;  // on one of them
void allow_shared(const void* kernel, size_t bytes);

// Runs `call`, a call of the function `kernel`, for every thread of the grid, now or, during graph capture,
// at each replay; so its arguments are captured by value. Throws if the launch is invalid, if threads
// deadlock, if a result depends on their order or on when copies arrive, or what the kernel threw.
void run(const void* kernel, const std::string& name, dim3 blocks, dim3 threads, size_t shared,
         const std::function<void()>& call);

// The thread's next shared array of `bytes`, which uses `taken` bytes of the launch's shared memory.
void* shared_array(size_t bytes, size_t taken);

// All threads of a block are to come to the same line of the same file.
void sync_block(const char* file, int line);

// The values that a lane contributes to a warp collective.
struct Words {
  uint32_t w[8] = {};
};
// Waits for all lanes of `mask` and returns the values of each lane. `what` names the collective: all lanes
// must be in the same one.
const Words* exchange(uint32_t mask, const char* what, const Words& mine);

// Copies `bytes` when the thread waits for the group, or at once: see copies_at_once.
void copy_later(void* to, const void* from, size_t bytes);
void close_copy_group();
void wait_for_copies(int groups_left);

[[noreturn]] void throw_misaligned(const char* what);

// The instructions of cuda/tile.h, according to the tables of the PTX ISA.
void mma_bf16(float* d, const uint32_t* a, const uint32_t* b);
void mma_tf32(float* d, const uint32_t* a, const uint32_t* b);
void load_matrices(uint32_t* v, const void* row, bool transposed);

inline int lane() { return int((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32); }

template <class T> Words words_of(T v) {
  static_assert(sizeof(T) <= sizeof(Words::w));
  Words words;
  std::memcpy(words.w, &v, sizeof(T));
  return words;
}
template <class T> T value_of(const Words& words) {
  T v;
  std::memcpy(&v, words.w, sizeof(T));
  return v;
}

template <class T> T shuffle(uint32_t mask, T v, int from) {
  const Words* all = exchange(mask, "shuffle", words_of(v));
  return value_of<T>(all[mask >> from & 1 ? from : lane()]);
}

}  // namespace simt

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::sync_block(file, line);
}
inline void __syncwarp(uint32_t mask = ~0u) { simt::exchange(mask, "__syncwarp", {}); }
inline void __threadfence() {}

template <class T> T __shfl_sync(uint32_t mask, T v, int from, int width = 32) {
  return simt::shuffle(mask, v, simt::lane() / width * width + from % width);
}
template <class T> T __shfl_xor_sync(uint32_t mask, T v, int bits) {
  return simt::shuffle(mask, v, simt::lane() ^ bits);
}
template <class T> T __shfl_up_sync(uint32_t mask, T v, int by) {
  return simt::shuffle(mask, v, simt::lane() >= by ? simt::lane() - by : simt::lane());
}
template <class T> T __shfl_down_sync(uint32_t mask, T v, int by) {
  return simt::shuffle(mask, v, simt::lane() + by < 32 ? simt::lane() + by : simt::lane());
}
inline uint32_t __ballot_sync(uint32_t mask, int vote) {
  const simt::Words* all = simt::exchange(mask, "vote", simt::words_of(vote != 0));
  uint32_t bits = 0;
  for (int l = 0; l < 32; ++l)
    if (mask >> l & 1 && simt::value_of<bool>(all[l])) bits |= 1u << l;
  return bits;
}
inline int __any_sync(uint32_t mask, int vote) { return __ballot_sync(mask, vote) != 0; }
inline int __all_sync(uint32_t mask, int vote) { return __ballot_sync(mask, vote) == mask; }

template <class T> uint32_t __match_any_sync(uint32_t mask, T v) {
  const simt::Words* all = simt::exchange(mask, "match", simt::words_of(v));
  uint32_t bits = 0;
  for (int l = 0; l < 32; ++l)
    if (mask >> l & 1 && simt::value_of<T>(all[l]) == v) bits |= 1u << l;
  return bits;
}

template <class T> T atomicAdd(T* to, T v) {
  const T old = *to;
  *to = old + v;
  return old;
}
template <class T> T atomicMax(T* to, T v) {
  const T old = *to;
  *to = std::max(old, v);
  return old;
}
inline int atomicCAS(int* to, int expected, int v) {
  const int old = *to;
  if (old == expected) *to = v;
  return old;
}

template <class T> T __ldg(const T* p) { return *p; }
template <class T> void __stwb(T* p, T v) { *p = v; }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __uint_as_float(uint32_t bits) { return simt::value_of<float>(simt::words_of(bits)); }
inline uint32_t __float_as_uint(float x) { return simt::value_of<uint32_t>(simt::words_of(x)); }
inline int __popc(uint32_t bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(unsigned(bits)) : 32; }
using std::max;
using std::min;
