#pragma once
#include "cuda/launch.h"
#include "cuda/pack.h"
#include "cuda/workspace.h"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// y[i] = weight[ids[i]], one pack of columns per thread. A kernel cannot throw: the row of an id outside of
// the vocabulary becomes NaN.
template <int V, class T> __global__ void embedding_kernel(const int64_t* ids, int64_t count, const T* weight,
                                                           int64_t vocab, int64_t dim, T* y) {
  const int64_t packs = dim / V;
  for (int64_t p = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; p < count * packs;
       p += int64_t(gridDim.x) * blockDim.x) {
    const int64_t i = p / packs, j = p % packs * V, id = ids[i];
    Pack<T, V> pack;
    if (id >= 0 && id < vocab)
      pack = load_pack<V>(weight + id * dim + j);
    else
      for (int v = 0; v < V; ++v) pack.v[v] = downcast<T>(NAN);
    store_pack(y + i * dim + j, pack);
  }
}

// The gradient in two steps: sort the tokens by id, then sum the rows of each id in the order of the
// tokens.

constexpr int sort_ids = 256, sort_warps = 32;  // per block

// Inclusive prefix sum over the lanes.
__device__ inline int lanes_sum(int x) {
  const int lane = int(threadIdx.x % warp_size);
  for (int o = 1; o < warp_size; o *= 2) {
    const int other = __shfl_up_sync(all_lanes, x, o);
    if (lane >= o) x += other;
  }
  return x;
}

// order [count]: token indices sorted by id (stable); those of an id are at start[id] .. start[id + 1] - 1;
// start [vocab + 1]. Tokens outside of the vocabulary are skipped. A block sorts the tokens of 256 ids: it
// reads all ids twice, to count and to place, each warp the same part of them both times.
static __global__ void __launch_bounds__(sort_warps* warp_size)
    sort_tokens_kernel(const int64_t* ids, int count, int64_t vocab, int* start, int* order) {
  Shared shared;
  int* next = shared.array<int>(sort_ids * sort_warps);  // [id, warp]: a count, then the next position
  int* place = shared.array<int>(sort_ids);              // an id's count, then its start
  int* earlier = shared.array<int>(sort_warps);          // per warp: tokens with ids before the block's
  const int lane = int(threadIdx.x % warp_size), warp = int(threadIdx.x / warp_size);
  const int64_t first = int64_t(blockIdx.x) * sort_ids, left = vocab - first;
  const int here = int(left < sort_ids ? left : sort_ids);
  const int begin = int(int64_t(count) * warp / sort_warps),
            end = int(int64_t(count) * (warp + 1) / sort_warps);

  for (int e = int(threadIdx.x); e < sort_ids * sort_warps; e += int(blockDim.x)) next[e] = 0;
  __syncthreads();
  int before = 0;
  for (int t = begin + lane; t < end; t += warp_size) {
    const int64_t id = ids[t] - first;
    if (id >= 0 && id < here)
      atomicAdd(&next[id * sort_warps + warp], 1);
    else if (id < 0 && id + first >= 0)
      ++before;
  }
  before = lanes_sum(before);
  if (lane == warp_size - 1) earlier[warp] = before;
  __syncthreads();

  for (int id = warp; id < sort_ids; id += sort_warps) {
    const int n = next[id * sort_warps + lane], sum = lanes_sum(n);
    next[id * sort_warps + lane] = sum - n;
    if (lane == warp_size - 1) place[id] = sum;
  }
  __syncthreads();
  if (warp == 0) {
    int at = __shfl_sync(all_lanes, lanes_sum(earlier[lane]), warp_size - 1);
    for (int id = lane; id < sort_ids; id += warp_size) {
      const int n = place[id], sum = lanes_sum(n);
      place[id] = at + sum - n;
      if (id < here) start[first + id] = at + sum - n;
      at += __shfl_sync(all_lanes, sum, warp_size - 1);
    }
    if (lane == 0 && here == left) start[vocab] = at;
  }
  __syncthreads();

  for (int t = begin + lane; t - lane < end; t += warp_size) {
    const int64_t id = t < end ? ids[t] - first : -1;
    const bool mine = id >= 0 && id < here;
    if (!__any_sync(all_lanes, mine)) continue;
    const unsigned same = __match_any_sync(all_lanes, mine ? int(id) : -1);
    const int rank = __popc(same & ((1u << lane) - 1));
    if (mine) order[place[id] + next[id * sort_warps + warp] + rank] = t;
    __syncwarp();
    if (mine && rank == 0) next[id * sort_warps + warp] += __popc(same);
    __syncwarp();
  }
}

// The results of sort_tokens_kernel.
struct SortedTokens {
  Workspace<int> start, order;
};
inline SortedTokens sort_tokens(const char* where, const int64_t* ids, int64_t count, int64_t vocab) {
  if (count > INT32_MAX)
    fail(where, "got " + std::to_string(count) + " ids, need fewer than 2^31 for a gradient on the GPU");
  SortedTokens tokens{Workspace<int>(vocab + 1), Workspace<int>(count)};
  constexpr size_t shared =
      shared_size<int>(sort_ids * sort_warps) + shared_size<int>(sort_ids) + shared_size<int>(sort_warps);
  launch<sort_tokens_kernel>({blocks_for(vocab, sort_ids, vocab), sort_warps * warp_size, shared}, ids,
                             int(count), vocab, tokens.start.data(), tokens.order.data());
  return tokens;
}

constexpr int sum_threads = 128;

// to [dim] = sum of gy's rows of `tokens` tokens. Groups of threads as wide as a row take tokens in turn;
// their sums are added in order.
template <int V, class T>
__device__ void sum_tokens(const T* gy, const int* order, int tokens, int64_t dim, T* to) {
  Shared shared;
  float* all = shared.array<float>(V * sum_threads);
  const int64_t packs = dim / V;
  const int thread = int(threadIdx.x);
  for (int64_t p = 0; p < packs; p += sum_threads) {
    const int across = int(packs - p < sum_threads ? packs - p : sum_threads);
    const int groups = sum_threads / across, group = thread / across;
    const int64_t j = (p + thread % across) * V;
    float s[V] = {};
    if (group < groups) {
#pragma unroll 4
      for (int k = group; k < tokens; k += groups) {
        const Pack<T, V> g = load_pack<V>(gy + order[k] * dim + j);
        for (int v = 0; v < V; ++v) s[v] += upcast(g.v[v]);
      }
    }
    if (tokens > 1) {
      for (int v = 0; v < V; ++v) all[v * sum_threads + thread] = s[v];
      __syncthreads();
      for (int g = 1; g < groups && group == 0; ++g)
        for (int v = 0; v < V; ++v) s[v] += all[v * sum_threads + g * across + thread];
      __syncthreads();
    }
    if (group > 0) continue;
    Pack<T, V> sum;
    for (int v = 0; v < V; ++v) sum.v[v] = downcast<T>(s[v]);
    store_pack(to + j, sum);
  }
}

// gw[id] = sum of gy's rows of the id's tokens; one block per id.
template <int V, class T> __global__ void embedding_gradient_kernel(const T* gy, const int* start,
                                                                    const int* order, int64_t dim, T* gw) {
  const int64_t id = blockIdx.x;
  sum_tokens<V>(gy, order + start[id], start[id + 1] - start[id], dim, gw + id * dim);
}

// place[id] = number of smaller ids that have tokens; place [vocab + 1]. One block.
static __global__ void __launch_bounds__(sort_warps* warp_size)
    place_ids_kernel(const int* start, int64_t vocab, int* place) {
  Shared shared;
  int* before = shared.array<int>(sort_warps);  // per warp: its ids, then those of earlier warps
  const int lane = int(threadIdx.x % warp_size), warp = int(threadIdx.x / warp_size);
  const int64_t begin = vocab * threadIdx.x / blockDim.x, end = vocab * (threadIdx.x + 1) / blockDim.x;
  int n = 0;
  for (int64_t id = begin; id < end; ++id) n += start[id + 1] > start[id];
  const int sum = lanes_sum(n);
  if (lane == warp_size - 1) before[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    const int of_warp = before[lane];
    before[lane] = lanes_sum(of_warp) - of_warp;
  }
  __syncthreads();
  int at = before[warp] + sum - n;
  for (int64_t id = begin; id < end; ++id) {
    place[id] = at;
    at += start[id + 1] > start[id];
  }
  if (end == vocab && begin < end) place[vocab] = at;
}

// The result of place_ids_kernel.
inline Workspace<int> place_ids(const SortedTokens& tokens, int64_t vocab) {
  Workspace<int> place(vocab + 1);
  launch<place_ids_kernel>({1, sort_warps * warp_size, shared_size<int>(sort_warps)}, tokens.start.data(),
                           vocab, place.data());
  return place;
}

// The same sums for ids that occur, stored compactly as part *batch of numbers [batches, places] and sums
// [batches, places, dim]. A kernel cannot throw: if there are more ids than places, sums become NaN.
template <int V> __global__ void sum_rows_kernel(const float* gradients, const int* start, const int* order,
                                                 const int* place, int64_t vocab, int64_t places, int64_t dim,
                                                 const int64_t* batch, int64_t* numbers, float* sums) {
  const int64_t id = blockIdx.x;
  const int tokens = start[id + 1] - start[id];
  if (tokens == 0 || place[id] >= places) return;
  const int64_t at = *batch * places + place[id];
  if (threadIdx.x == 0) numbers[at] = id;
  sum_tokens<V>(gradients, order + start[id], tokens, dim, sums + at * dim);
  if (threadIdx.x == 0 && place[vocab] > places) sums[at * dim] = NAN;
}

// table[numbers[i]] += sums[i], one pack of columns per thread; numbers are distinct, those outside of the
// table are skipped.
template <int V> __global__ void add_rows_kernel(const int64_t* numbers, int64_t count, const float* sums,
                                                 int64_t rows, int64_t dim, float* table) {
  const int64_t packs = dim / V;
  for (int64_t p = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; p < count * packs;
       p += int64_t(gridDim.x) * blockDim.x) {
    const int64_t i = p / packs, j = p % packs * V, number = numbers[i];
    if (number < 0 || number >= rows) continue;
    Pack<float, V> row = load_pack<V>(table + number * dim + j);
    const Pack<float, V> sum = load_pack<V>(sums + i * dim + j);
    for (int v = 0; v < V; ++v) row.v[v] += sum.v[v];
    store_pack(table + number * dim + j, row);
  }
}

}  // namespace pursuit::cuda
#endif
