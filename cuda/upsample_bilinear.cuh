#pragma once
#include "cuda/launch.h"
#include "cuda/pack.h"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// One axis: output i is at position place(i) / (2 to) among the inputs 0 .. from - 1, in exact integer
// arithmetic.
struct Axis {
  int64_t from, to;

  __device__ int64_t place(int64_t i) const {
    const int64_t at = (2 * i + 1) * from - to, last = 2 * to * (from - 1);
    return at < 0 ? 0 : at > last ? last : at;
  }
  // The input at or before output i.
  __device__ int64_t input(int64_t i) const { return place(i) / (2 * to); }
  // The first output at or after input c; `to` after the last.
  __device__ int64_t first(int64_t c) const {
    const int64_t at = (2 * c + 1) * to - from, i = at <= 0 || c == 0 ? 0 : (at - 1) / (2 * from) + 1;
    return c == from || i > to ? to : i;
  }
  // The weight of input c in output i: 1 at its position, 0 from distance 1 on.
  __device__ float weight(int64_t i, int64_t c) const {
    const float distance = fabsf(float(place(i) - 2 * to * c)) * (1.0f / float(2 * to));
    return fmaxf(0.0f, 1 - distance);
  }
  // The outputs to which input c contributes: begin(c) .. end(c) - 1.
  __device__ int64_t begin(int64_t c) const {
    const int64_t at = (2 * c - 1) * to - from;
    return at < 0 ? 0 : at / (2 * from) + 1;
  }
  __device__ int64_t end(int64_t c) const {
    const int64_t at = (2 * c + 3) * to - from, i = at <= 0 ? 0 : (at - 1) / (2 * from) + 1;
    return i < to ? i : to;
  }
};

constexpr int upsample_rows = 16;  // per thread

// y [planes, rows.to, cols.to] from x [planes, rows.from, cols.from]. A thread computes a pack of columns in
// several rows, which mostly lie between the same two rows of x.
template <int V, class T>
__global__ void upsample_kernel(const T* x, T* y, int64_t planes, Axis rows, Axis cols) {
  const int64_t packs = cols.to / V, strips = (rows.to + upsample_rows - 1) / upsample_rows;
  for (int64_t p = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; p < planes * strips * packs;
       p += int64_t(gridDim.x) * blockDim.x) {
    const int64_t j = p % packs * V, strip = p / packs % strips, plane = p / packs / strips;
    int64_t left[V];
    float to_right[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      left[v] = cols.input(j + v);
      to_right[v] = 1 - cols.weight(j + v, left[v]);
    }
    const auto line = [&](int64_t r, float(&to)[V]) {
      const T* row = x + (plane * rows.from + r) * cols.from;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const int64_t right = left[v] + 1 < cols.from ? left[v] + 1 : left[v];
        to[v] = (1 - to_right[v]) * upcast(row[left[v]]) + to_right[v] * upcast(row[right]);
      }
    };
    float above[V], below[V];
    int64_t r = -1;
    for (int64_t i = strip * upsample_rows; i < rows.to && i < (strip + 1) * upsample_rows; ++i) {
      if (rows.input(i) != r) {
        r = rows.input(i);
        line(r, above);
        line(r + 1 < rows.from ? r + 1 : r, below);
      }
      const float w = rows.weight(i, r);
      Pack<T, V> made;
#pragma unroll
      for (int v = 0; v < V; ++v) made.v[v] = downcast<T>(w * above[v] + (1 - w) * below[v]);
      store_pack(y + (plane * rows.to + i) * cols.to + j, made);
    }
  }
}

constexpr int upsample_threads = 128, upsample_piece = 1024;

// The transpose: gx [planes, rows.from, cols.from] from gy [planes, rows.to, cols.to], one block per row of
// gx. A piece of the row is first summed over the rows of gy, into shared memory, then over its columns.
template <int V, class T> __global__ void upsample_gradient_kernel(const T* gy, T* gx, Axis rows, Axis cols) {
  Shared shared;
  float* line = shared.array<float>(upsample_piece);
  const int64_t r = blockIdx.x % rows.from;
  const T* plane = gy + blockIdx.x / rows.from * rows.to * cols.to;
  for (int64_t first = 0; first < cols.from; first += upsample_threads) {
    const int64_t last = first + upsample_threads < cols.from ? first + upsample_threads - 1 : cols.from - 1;
    const int64_t c = first + threadIdx.x;  // this thread's column of gx
    const int64_t end = cols.end(last);
    float sum = 0;
    for (int64_t piece = cols.begin(first) / V * V; piece < end; piece += upsample_piece) {
      const int64_t piece_end = piece + upsample_piece < end ? piece + upsample_piece : end;
      for (int64_t j = piece + threadIdx.x * V; j < piece_end; j += upsample_threads * V) {
        float s[V] = {};
        for (int64_t i = rows.begin(r); i < rows.end(r); ++i) {
          const Pack<T, V> g = load_pack<V>(plane + i * cols.to + j);
          const float w = rows.weight(i, r);
#pragma unroll
          for (int v = 0; v < V; ++v) s[v] += w * upcast(g.v[v]);
        }
        for (int v = 0; v < V; ++v) line[j - piece + v] = s[v];
      }
      __syncthreads();
      if (c <= last) {
        const int64_t from = cols.begin(c) > piece ? cols.begin(c) : piece;
        const int64_t to = cols.end(c) < piece_end ? cols.end(c) : piece_end;
        for (int64_t j = from; j < to; ++j) sum += cols.weight(j, c) * line[j - piece];
      }
      __syncthreads();
    }
    if (c <= last) gx[blockIdx.x * cols.from + c] = downcast<T>(sum);
  }
}

}  // namespace pursuit::cuda
#endif
