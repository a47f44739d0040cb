#pragma once
#include <cfloat>
#include <type_traits>

#include "cuda/launch.h"
#include "cuda/pack.h"
#include "cuda/tile.h"

// Building blocks of the attention kernels and of mlp.cuh, in attention's terms. A warp owns a strip: R tiles
// of 16 rows of one head. It loops over the head's other rows, the columns of its scores, in chunks of J
// tiles of 8. The right operands are in shared memory as rows of D numbers (D a multiple of 16), `row_stride`
// apart; the strip's own results stay in registers:
//
//   product_with_rows<D>(s, q, keys);  // s = q keys^T
//   hide(s, -INFINITY, first_row, first_col, n, causal);
//   if (softmax.grow(s, factor, fade)) scale_rows(o, fade);
//   softmax.add(s, factor);  // s <- exp2(factor s - most)
//   add_product<D>(o, s, values);  // o += s values
//
// Unless noted, a function is called by whole warps, with the same arguments in all lanes.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// The warp's index, known to the compiler to be uniform: values derived from it do not use per-lane
// registers.
__device__ inline int warp_index() { return __shfl_sync(all_lanes, int(threadIdx.x) / warp_size, 0); }
__device__ inline int lane_index() { return int(threadIdx.x) % warp_size; }

// --- rows of a matrix, such as a head's queries, in global and shared memory

// n rows of d numbers in global memory, ld apart.
template <class T> struct MatrixRows {
  T* p;
  int ld, n, d;

  __device__ T* at(int i) const { return p + int64_t(i) * ld; }
  // Whether rows can be copied 16 bytes at a time.
  __device__ bool aligned() const {
    return (reinterpret_cast<uintptr_t>(p) | uintptr_t(ld) * sizeof(T) | uintptr_t(d) * sizeof(T)) % 16 == 0;
  }
};

// Numbers per 16 bytes, and the row stride in shared memory: rows are padded by 16 bytes, so that eight rows
// read at once are in different banks.
template <class T> constexpr int per_move = 16 / int(sizeof(T));
template <class T, int D> constexpr int row_stride = D + per_move<T>;

// Copies rows first, first + 1, ... of x to shared memory [count, D], with zeros after its last row and
// column. Called by `threads` threads, whole warps that fill a row, with indices `thread`; the rows are
// visible after close_copies, wait_copies and a barrier.
template <int D, class T> __device__ void load_rows(T* to, const MatrixRows<const T>& x, int first, int count,
                                                    int thread, int threads) {
  constexpr int moves = D / per_move<T>;
  const int col = thread % moves * per_move<T>;
  const bool moved = x.aligned() && col < x.d;
  if (warp_size % moves != 0 && thread >= threads / moves * moves) return;  // what is left of whole rows
  for (int row = thread / moves; row < count; row += threads / moves) {
    const bool inside = first + row < x.n;
    T* target = to + row * row_stride<T, D> + col;
    if (moved && inside) {
      copy_async(target, x.at(first + row) + col);
    } else {
#pragma unroll
      for (int k = 0; k < per_move<T>; ++k)
        target[k] = inside && col + k < x.d ? x.at(first + row)[col + k] : downcast<T>(0.0f);
    }
  }
}

// Stores rows [16, D] of shared memory to y's rows first to first + 15, as far as they exist; one warp.
template <int D, class T> __device__ void store_rows(const MatrixRows<T>& y, int first, const T* from) {
  constexpr int moves = D / per_move<T>;
  const int lane = lane_index(), col = lane % moves * per_move<T>;
  const bool moved = y.aligned() && col < y.d;
  for (int row = lane / moves; row < 16 && first + row < y.n; row += warp_size / moves) {
    const T* source = from + row * row_stride<T, D> + col;
    T* target = y.at(first + row) + col;
    if (moved) {
      *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(source);
    } else {
#pragma unroll
      for (int k = 0; k < per_move<T>; ++k)
        if (col + k < y.d) target[k] = source[k];
    }
  }
}

// Panels of rows of `Parts` matrices, side by side in shared memory: all rows at once if they fit; otherwise
// double buffered, so that the next panel is copied while this one is used.
template <class T, int D, int Parts> class Panels {
 public:
  static constexpr int numbers(int panel, int n) {
    return (panel < n ? 2 : 1) * Parts * panel * row_stride<T, D>;
  }

  // x: `Parts` matrices of n rows; panel: rows per panel, a multiple of 16; memory: numbers(panel, n)
  // elements. Constructed and used by all threads of the block.
  __device__ Panels(const MatrixRows<const T>* x, int panel, T* memory)
      : panel_(panel), whole_(panel >= x[0].n), memory_(memory) {
#pragma unroll
    for (int i = 0; i < Parts; ++i) x_[i] = x[i];
    if (whole_) {
      start(0, 0);
      wait_copies<0>();
      __syncthreads();
    }
  }

  // Calls f(first, part) for every panel with rows in [begin, end): its first row, and part[i], its rows of
  // matrix i.
  template <class F> __device__ void walk(int begin, int end, F f) {
    int side = 0;
    begin -= begin % panel_;
    if (!whole_) {
      __syncthreads();  // other threads may still read panels of an earlier walk
      start(begin, side);
    }
    for (int from = begin; from < end; from += panel_) {
      if (!whole_) {
        wait_copies<0>();
        __syncthreads();
        if (from + panel_ < end) start(from + panel_, 1 - side);
      }
      f(from, Places{*this, side});
      side = 1 - side;
    }
  }

 private:
  struct Places {
    const Panels& panels;
    int side;
    __device__ const T* operator[](int which) const { return panels.place(side, which); }
  };
  __device__ T* place(int side, int which) const {
    return memory_ + (side * Parts + which) * panel_ * row_stride<T, D>;
  }
  __device__ void start(int from, int side) const {
#pragma unroll
    for (int k = 0; k < Parts; ++k)
      load_rows<D>(place(side, k), x_[k], from, panel_, int(threadIdx.x), int(blockDim.x));
    close_copies();
  }

  MatrixRows<const T> x_[Parts];
  int panel_;
  bool whole_;
  T* memory_;
};

// --- strips as left operands: tile(r, k) is tile r of 16 rows at step k of the inner dimension

template <class T, int D> struct SharedRows {
  static constexpr int unroll = 4;
  const T* p;

  __device__ TileA<T> tile(int r, int k) const {
    TileA<T> a;
    load_a_row(a, p + r * 16 * row_stride<T, D> + k * tile_depth<T>, row_stride<T, D>);
    return a;
  }
  // Loads them from global memory into `own`, this warp's memory.
  __device__ void load(const MatrixRows<const T>& x, int first, T* own) {
    __syncwarp();
    load_rows<D>(own, x, first, 16, lane_index(), warp_size);
    close_copies();
    wait_copies<0>();
    __syncwarp();
    p = own;
  }
};

template <class T, int D, int R> struct KeptRows {
  static constexpr int unroll = D / tile_depth<T>;
  TileA<T> a[R][D / tile_depth<T>];

  __device__ const TileA<T>& tile(int r, int k) const { return a[r][k]; }
  // `own` is temporary memory of the warp for 16 rows.
  __device__ void load(const MatrixRows<const T>& x, int first, T* own) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      SharedRows<T, D> rows;
      rows.load(x, first + r * 16, own);
#pragma unroll
      for (int k = 0; k < D / tile_depth<T>; ++k) a[r][k] = rows.tile(0, k);
    }
  }
  // Takes them from shared memory.
  __device__ void take(const T* from) {
    const SharedRows<T, D> rows{from};
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int k = 0; k < D / tile_depth<T>; ++k) a[r][k] = rows.tile(r, k);
  }
};

// --- matrix products

// s = left right. right(b, k, j) loads two tiles of the right operand: depth k on, columns j on.
template <int D, class T, int R, int J, class Left, class Right>
__device__ void product_by(TileD (&s)[R][J], const Left& left, const Right& right) {
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int j = 0; j < J; ++j) s[r][j] = TileD{};
#pragma unroll Left::unroll
  for (int k = 0; k < D / tile_depth<T>; ++k) {
    TileA<T> a[R];
#pragma unroll
    for (int r = 0; r < R; ++r) a[r] = left.tile(r, k);
#pragma unroll
    for (int j = 0; j < J; j += 2) {
      TileB<T> b[2];
      right(b, k * tile_depth<T>, j * 8);
#pragma unroll
      for (int r = 0; r < R; ++r)
#pragma unroll
        for (int half = 0; half < 2; ++half) multiply(s[r][j + half], a[r], b[half]);
    }
  }
}

// s = left right^T, right [J * 8, D].
template <int D, class T, int R, int J, class Left>
__device__ void product_with_rows(TileD (&s)[R][J], const Left& left, const T* right) {
  constexpr int ld = row_stride<T, D>;
  product_by<D, T>(s, left, [&](auto& b, int k, int j) { load_b_row(b, right + j * ld + k, ld); });
}
// s = left right, right [D, J * 8].
template <int D, class T, int R, int J, class Left>
__device__ void product(TileD (&s)[R][J], const Left& left, const T* right) {
  constexpr int ld = row_stride<T, J * 8>;
  product_by<D, T>(s, left, [&](auto& b, int k, int j) { load_b_column(b, right + k * ld + j, ld); });
}

// o += p right, right as in product_by. The tensor cores truncate every sum toward 0, which adds up over many
// chunks. With `rounds`, sums of f32 begin at 0 for each step and are added to o outside, rounded to nearest
// (Ootomo and Yokota, 2022). For bf16 the error is far below that of its numbers.
template <int D, bool rounds, class T, int R, int J, class Right>
__device__ void add_product_by(TileD (&o)[R][D / 8], const TileD (&p)[R][J], const Right& right) {
#pragma unroll
  for (int k = 0; k < J * 8; k += tile_depth<T>) {
    TileA<T> a[R];
#pragma unroll
    for (int r = 0; r < R; ++r) results_as_a(a[r], &p[r][k / 8]);
#pragma unroll
    for (int j = 0; j < D / 8; j += 2) {
      TileB<T> b[2];
      right(b, k, j * 8);
#pragma unroll
      for (int r = 0; r < R; ++r)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if constexpr (rounds && std::is_same_v<T, float>) {
            TileD step;
            multiply(step, a[r], b[half]);
#pragma unroll
            for (int i = 0; i < 4; ++i) o[r][j + half].v[i] += step.v[i];
          } else {
            multiply(o[r][j + half], a[r], b[half]);
          }
        }
    }
  }
}

// o += p right, right [J * 8, D].
template <int D, bool rounds = false, class T, int R, int J>
__device__ void add_product(TileD (&o)[R][D / 8], const TileD (&p)[R][J], const T* right) {
  constexpr int ld = row_stride<T, D>;
  add_product_by<D, rounds, T>(o, p,
                               [&](auto& b, int k, int j) { load_b_column(b, right + k * ld + j, ld); });
}
// o += p right^T, right [D, J * 8].
template <int D, class T, int R, int J>
__device__ void add_product_with_rows(TileD (&o)[R][D / 8], const TileD (&p)[R][J], const T* right) {
  constexpr int ld = row_stride<T, J * 8>;
  add_product_by<D, false, T>(o, p, [&](auto& b, int k, int j) { load_b_row(b, right + j * ld + k, ld); });
}

// --- the numbers of a strip. A lane holds numbers of 2 R rows and 2 J columns, at these positions of the
// strip and of the chunk:

__device__ inline int strip_row(int r) { return r / 2 * 16 + tile_row(r % 2 * 2); }
__device__ inline int chunk_col(int c) { return c / 2 * 8 + tile_col(c % 2); }

// Calls f(number, r, c) for the lane's numbers, or f(number, number of t, r, c).
template <int R, int J, class F> __device__ void for_numbers(TileD (&s)[R][J], F f) {
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int j = 0; j < J; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) f(s[r][j].v[i], 2 * r + i / 2, 2 * j + i % 2);
}
template <int R, int J, class F> __device__ void for_numbers(TileD (&s)[R][J], const TileD (&t)[R][J], F f) {
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int j = 0; j < J; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) f(s[r][j].v[i], t[r][j].v[i], 2 * r + i / 2, 2 * j + i % 2);
}

template <int R, int J> __device__ void scale_rows(TileD (&o)[R][J], const float (&factor)[2 * R]) {
  for_numbers(o, [&](float& v, int r, int) { v *= factor[r]; });
}
template <int R, int J> __device__ void scale(TileD (&s)[R][J], float factor) {
  for_numbers(s, [&](float& v, int, int) { v *= factor; });
}

// Stores o to y's rows first to first + 16 R - 1, if they exist; `own` is the warp's memory for 16 rows.
template <int D, class T, int R>
__device__ void store_strip(const MatrixRows<T>& y, int first, const TileD (&o)[R][D / 8], T* own) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < D / 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        T* pair = own + tile_row(i) * row_stride<T, D> + j * 8 + tile_col(i);
        if constexpr (std::is_same_v<T, bf16>)
          *reinterpret_cast<uint32_t*>(pair) = pack_bf16(o[r][j].v[i], o[r][j].v[i + 1]);
        else
          *reinterpret_cast<float2*>(pair) = make_float2(o[r][j].v[i], o[r][j].v[i + 1]);
      }
    __syncwarp();
    store_rows<D>(y, first + r * 16, own);
  }
}

// Sum over the four lanes that share a row.
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(all_lanes, x, 1);
  return x + __shfl_xor_sync(all_lanes, x, 2);
}
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(all_lanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(all_lanes, x, 2));
}

// dot[r] = x y for the lane's rows of the strip that begins at row `first`, in f32; 0 where x ends before them.
// y: as many rows and columns as x, or more.
template <int R, class T> __device__ void row_dots(float (&dot)[2 * R], const MatrixRows<const T>& x,
                                                   const MatrixRows<const T>& y, int first) {
  const auto add = [&]<int V>(int r) {  // each of the four lanes takes V columns of 4 V
    const T *a = x.at(first + strip_row(r)), *b = y.at(first + strip_row(r));
#pragma unroll 1  // unrolled it takes registers from the loops over keys
    for (int c = lane_index() % 4 * V; c < x.d; c += 4 * V) {
      const Pack<T, V> left = load_pack<V>(a + c), right = load_pack<V>(b + c);
#pragma unroll
      for (int i = 0; i < V; ++i) dot[r] += upcast(left.v[i]) * upcast(right.v[i]);
    }
  };
  const bool packs = x.aligned() && y.aligned();
#pragma unroll
  for (int r = 0; r < 2 * R; ++r) {
    dot[r] = 0;
    if (first + strip_row(r) < x.n)
      packs ? add.template operator()<per_move<T>>(r) : add.template operator()<1>(r);
    dot[r] = row_sum(dot[r]);
  }
}

// --- softmax in powers of two. The softmax's scale and log2(e) are one factor, which multiplies a score
// where the row's maximum is subtracted: one instruction.

constexpr float log2_e = 1.44269504f;

// 2^x by the hardware instruction, with an error of at most 2 ulp; 0 below 2^-126.
__device__ inline float power_of_2(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

// Sets masked scores to `value`: columns after row i of a causal head, and columns beyond the end.
template <int R, int J>
__device__ void hide(TileD (&s)[R][J], float value, int first_row, int first_col, int n, bool causal) {
  if (first_col + J * 8 <= (causal ? min(n, first_row + 1) : n)) return;
  // Relative to the lane's first number: its column is `left` before the end and `ahead` before its row.
  const int left = n - first_col - chunk_col(0), ahead = first_row + strip_row(0) - first_col - chunk_col(0);
  for_numbers(s, [&](float& v, int r, int c) {
    const int row = strip_row(r) - strip_row(0), col = chunk_col(c) - chunk_col(0);
    if (col >= left || (causal && col - row > ahead)) v = value;
  });
}

// Online softmax over rows that arrive in chunks.
template <int R> struct RowSoftmax {
  // `most` is updated only when a score exceeds it by more than 8: powers up to 2^8 do no harm, and earlier
  // sums need no rescaling.
  static constexpr float slack = 8;
  float most[2 * R], total[2 * R];  // total: of the lane's columns; after finish: 1 / total of the row

  __device__ RowSoftmax() {
#pragma unroll
    for (int i = 0; i < 2 * R; ++i) {
      most[i] = -FLT_MAX;
      total[i] = 0;
    }
  }

  // Raises `most` if needed for scores factor * s, factor > 0, in which masked ones are -inf. Returns whether
  // it did; then earlier sums must be multiplied by fade.
  template <int J> __device__ bool grow(TileD (&s)[R][J], float factor, float (&fade)[2 * R]) {
    float next[2 * R];
#pragma unroll
    for (int i = 0; i < 2 * R; ++i) next[i] = -INFINITY;
    for_numbers(s, [&](float v, int r, int) { next[r] = fmaxf(next[r], v); });
    bool grows = false;
#pragma unroll
    for (int i = 0; i < 2 * R; ++i) {
      next[i] = fmaxf(most[i], next[i] * factor);
      grows = grows || next[i] > most[i] + slack;
    }
    if (!__any_sync(all_lanes, grows)) return false;
#pragma unroll
    for (int i = 0; i < 2 * R; ++i) {
      next[i] = row_max(next[i]);
      fade[i] = power_of_2(most[i] - next[i]);
      total[i] *= fade[i];
      most[i] = next[i];
    }
    return true;
  }

  // s <- exp2(factor s - most), added to total.
  template <int J> __device__ void add(TileD (&s)[R][J], float factor) {
    for_numbers(s, [&](float& v, int r, int) {
      v = power_of_2(v * factor - most[r]);
      total[r] += v;
    });
  }

  // After the last chunk: softmax = exp2(factor s - most) total. A row without visible scores has 0 and 0.
  __device__ void finish() {
#pragma unroll
    for (int i = 0; i < 2 * R; ++i) {
      const float sum = row_sum(total[i]);
      most[i] = sum == 0 ? 0 : most[i];
      total[i] = sum == 0 ? 0 : __fdividef(1, sum);
    }
  }
};

// What softmax's gradient needs of a row: p = exp2(factor s - most) inverse, and dot = sum_j p_j dp_j.
struct alignas(16) RowGradient {
  float most = 0, inverse = 0, dot = 0, unused = 0;  // p = 0 for a row that does not exist

  __device__ float p(float s, float factor) const { return power_of_2(s * factor - most) * inverse; }
};

}  // namespace pursuit::cuda
#endif
