#pragma once
#include <algorithm>
#include <cfloat>
#include <initializer_list>
#include <type_traits>

#include "cuda/launch.h"
#include "cuda/pack.h"

// Kernels over the rows of matrices [n, cols], written once for rows of any length:
//
//   template <class Team, class T>
//   __global__ void halve_kernel(const T* x, T* y, int64_t n, int64_t cols) {
//     const Team team(cols);
//     for (int64_t i = team.first(); i < n; i += team.step()) {
//       const auto row = team.read(x + i * cols);
//       team.write(y + i * cols, [&](int64_t, float v) { return v / 2; }, row);
//     }
//   }
//
// A team is the group of threads that share a row: a warp, which keeps the row in registers, or for longer
// rows a block, which reads the row again in every pass (from the cache after the first). with_team chooses.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// exp as accurate as T needs: __expf has a relative error of at most 2e-5; bf16 is rounded to 4e-3.
template <class T> __device__ inline float exp_of(float x) {
  if constexpr (std::is_same_v<T, float>)
    return expf(x);
  else
    return __expf(x);
}

// Single numbers need more registers than packs: an address and a condition each. Two f32 rows of 768 for
// each of 16 warps fit into the 99 KiB of shared memory that a block has on every GPU.
template <int V, int block_warps>
constexpr int longest_kept_row = std::min(V == 1 ? 512 : 1024, block_warps > 4 ? 768 : 1024);

// Each thread of the team has packs of V adjacent columns. A block has `block_warps` warps.
template <int V, bool by_warp, int block_warps = by_warp ? 4 : 16> class Team {
 public:
  static constexpr bool keeps_rows = by_warp;
  static constexpr int threads = block_warps * warp_size;  // of a block
  static constexpr int64_t teams_of_block = by_warp ? threads / warp_size : 1;

 private:
  static constexpr int warps = threads / warp_size;
  static constexpr int kept = longest_kept_row<V, block_warps> / (warp_size * V);  // packs per thread

  template <class T> struct Kept {
    using Number = T;
    Pack<T, V> pack[kept];
    __device__ const Pack<T, V>& at(int64_t, int k) const { return pack[k]; }
  };
  template <class T> struct Streamed {
    using Number = T;
    const T* row;
    __device__ Pack<T, V> at(int64_t j, int) const {
      constexpr int W = V < pack_width<T> ? V : pack_width<T>;
      Pack<T, V> pack;
#pragma unroll
      for (int v = 0; v < V; v += W) {
        const Pack<T, W> part = load_pack<W>(row + j + v);
#pragma unroll
        for (int w = 0; w < W; ++w) pack.v[v + w] = part.v[w];
      }
      return pack;
    }
  };

 public:
  template <class T> using Row = std::conditional_t<by_warp, Kept<T>, Streamed<T>>;

  // A launch for n rows with at most most_blocks blocks.
  static Grid grid(int64_t n, int64_t most_blocks = 65535) {
    return {blocks_for(n, teams_of_block, most_blocks), threads, by_warp ? 0 : shared_size<uint64_t>(warps)};
  }

  // A kernel with its own shared memory, apart from the team's, takes it from `shared` afterwards.
  __device__ Team(int64_t cols, Shared& shared) : cols_(cols) {
    if constexpr (!by_warp) part_ = shared.array<uint64_t>(warps);
  }
  __device__ explicit Team(int64_t cols) : cols_(cols) {
    Shared shared;
    if constexpr (!by_warp) part_ = shared.array<uint64_t>(warps);
  }

  // The team's rows are first(), first() + step(), ...; first() is also the team's index.
  __device__ int64_t first() const {
    return int64_t(blockIdx.x) * teams_of_block + (by_warp ? threadIdx.x / warp_size : 0);
  }
  __device__ int64_t step() const { return int64_t(gridDim.x) * teams_of_block; }
  __device__ bool leads() const { return threadIdx.x % (by_warp ? warp_size : threads) == 0; }

  template <class T> __device__ Row<T> read(const T* row) const {
    if constexpr (by_warp) {
      Row<T> r;
#pragma unroll
      for (int k = 0; k < kept; ++k)  // issue all loads at once
        if (column(k) < cols_) r.pack[k] = load_pack<V>(row + column(k));
      return r;
    } else {
      return {row};
    }
  }

  // A row that all teams read, through the cache.
  template <class T> __device__ Streamed<T> stream(const T* row) const { return {row}; }
  // The index of column j in an array [cols] of shared memory that only the column's thread uses; adjacent
  // threads use different banks.
  __device__ int64_t place(int64_t j) const { return j % V * (cols_ / V) + j / V; }

  // Calls f(column, value of each row at that column) for this thread's columns.
  template <class F, class... R> __device__ void each(const F& f, const R&... rows) const {
    for_packs([&](int64_t j, int k) { each_of(f, j, rows.at(j, k)...); });
  }
  // to[column] = f(column, value of each row at that column).
  template <class T, class F, class... R> __device__ void write(T* to, const F& f, const R&... rows) const {
    for_packs(
        [&](int64_t j, [[maybe_unused]] int k) { store_pack(to + j, made_of<T>(f, j, rows.at(j, k)...)); });
  }
  // The same; returns what was written as a row.
  template <class T, class F, class... R>
  __device__ Row<T> write_row(T* to, const F& f, const R&... rows) const {
    Row<T> made;
    for_packs([&](int64_t j, [[maybe_unused]] int k) {
      const Pack<T, V> pack = made_of<T>(f, j, rows.at(j, k)...);
      store_pack(to + j, pack);
      if constexpr (by_warp) made.pack[k] = pack;
    });
    if constexpr (!by_warp) made.row = to;  // every thread reads the columns that it wrote
    return made;
  }
  // to[column] = f(...), and narrow[column] = factor times that.
  template <class T, class N, class F, class... R>
  __device__ void write_both(T* to, N* narrow, float factor, const F& f, const R&... rows) const {
    for_packs([&](int64_t j, [[maybe_unused]] int k) {
      const Pack<T, V> made = made_of<T>(f, j, rows.at(j, k)...);
      store_pack(to + j, made);
      store_pack(narrow + j, made_of<N>([&](int64_t, float v) { return factor * v; }, j, made));
    });
  }

  // Reduces x over all threads with f, in an order that depends only on the team's size; all get the result.
  template <class X, class F> __device__ X reduce(X x, const F& f) const {
    for (int o = warp_size / 2; o > 0; o /= 2) x = f(x, __shfl_xor_sync(all_lanes, x, o));
    if constexpr (!by_warp) {
      static_assert(sizeof(X) <= sizeof(uint64_t));
      X* part = reinterpret_cast<X*>(part_);
      if (threadIdx.x % warp_size == 0) part[threadIdx.x / warp_size] = x;
      __syncthreads();
      x = part[threadIdx.x % warps];
      __syncthreads();
      for (int o = warps / 2; o > 0; o /= 2) x = f(x, __shfl_xor_sync(all_lanes, x, o));
    }
    return x;
  }
  __device__ float sum(float x) const {
    return reduce(x, [](float a, float b) { return a + b; });
  }
  __device__ float max(float x) const {
    return reduce(x, [](float a, float b) { return fmaxf(a, b); });
  }

 private:
  // The first column of this thread's pack k.
  __device__ static int column(int k) { return (k * warp_size + int(threadIdx.x % warp_size)) * V; }

  // Calls f(first column, index of the pack) for this thread's packs.
  template <class F> __device__ void for_packs(const F& f) const {
    if constexpr (by_warp) {
#pragma unroll
      for (int k = 0; k < kept; ++k) {
        if (k * warp_size * V >= cols_) break;
        if (column(k) < cols_) f(column(k), k);
      }
    } else {
      for (int64_t j = int64_t(threadIdx.x) * V; j < cols_; j += threads * V) f(j, 0);
    }
  }
  template <class F, class... P> __device__ static void each_of(const F& f, int64_t j, const P&... pack) {
#pragma unroll
    for (int v = 0; v < V; ++v) f(j + v, upcast(pack.v[v])...);
  }
  template <class T, class F, class... P>
  __device__ static Pack<T, V> made_of(const F& f, int64_t j, const P&... pack) {
    Pack<T, V> made;
#pragma unroll
    for (int v = 0; v < V; ++v) made.v[v] = downcast<T>(f(j + v, upcast(pack.v[v])...));
    return made;
  }

  std::conditional_t<by_warp, int, int64_t> cols_;
  uint64_t* part_ = nullptr;
};

// Calls f(Type<Team>{}) with the team for rows of `cols` numbers of type T or wider, in matrices that start
// at these addresses. Teams of one warp are in blocks of `block_warps`.
template <class T, int block_warps = 4, class F>
void with_team(int64_t cols, std::initializer_list<const void*> matrices, const F& f) {
  constexpr int V = pack_width<T>;
  const bool packs = cols % V == 0 && std::all_of(matrices.begin(), matrices.end(), [](const void* p) {
                       return reinterpret_cast<uintptr_t>(p) % 16 == 0;
                     });
  if (packs && cols <= longest_kept_row<V, block_warps>) return f(Type<Team<V, true, block_warps>>{});
  if (packs) return f(Type<Team<V, false>>{});
  if (cols <= longest_kept_row<1, block_warps>) return f(Type<Team<1, true, block_warps>>{});
  f(Type<Team<1, false>>{});
}

// The sum of exp(x - most) over a row. `most` is the row's maximum; if all are -inf it is the lowest finite
// number, so that x - most is never inf - inf and exp gives 0 throughout.
struct Exponentials {
  float most, sum;
};

template <class Team, class Row> __device__ Exponentials exponentials(const Team& team, const Row& row) {
  using T = typename Row::Number;
  float most = -FLT_MAX, sum = 0;
  if constexpr (Team::keeps_rows) {
    team.each([&](int64_t, float v) { most = fmaxf(most, v); }, row);
    most = team.max(most);
    team.each([&](int64_t, float v) { sum += exp_of<T>(v - most); }, row);
    return {most, team.sum(sum)};
  } else {
    // In one pass: a new maximum rescales the sum so far.
    team.each(
        [&](int64_t, float v) {
          if (v > most) {
            sum *= exp_of<T>(most - v);
            most = v;
          }
          sum += exp_of<T>(v - most);
        },
        row);
    const float of_row = team.max(most);
    return {of_row, team.sum(sum * exp_of<T>(most - of_row))};
  }
}

}  // namespace pursuit::cuda
#endif
