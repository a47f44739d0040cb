#pragma once
#include <cstring>

#include "apps/examples/laboratory/meter.h"
#include "apps/examples/laboratory/sizes.h"

// C = A B for A [m, k], B [k, n] and C [m, n], row-major, on one thread of a CPU, in four versions. README.md
// explains each. All are inlined into functions for one instruction set, see cpu_matmul.cpp.
namespace pursuit::laboratory {

#define PURSUIT_INLINED [[gnu::always_inline]] inline

// --- Version 1: the definition. Each sum reads a column of B with stride n.

template <class Meter, class T>
PURSUIT_INLINED void cpu_matmul_1(Meter meter, const T* a_, const T* b_, T* c_, Sizes s) {
  const auto a = meter.memory(a_), b = meter.memory(b_);
  const auto c = meter.memory(c_);
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j) {
      T sum = 0;
      for (int64_t l = 0; l < s.k; ++l) sum += a[i * s.k + l] * b[l * s.n + j];
      meter.multiply_adds(s.k);
      c[i * s.n + j] = sum;
    }
}

// --- Version 2: the two inner loops exchanged. Rows of B and C are read contiguously, vectorised over
// columns.

template <class Meter, class T>
PURSUIT_INLINED void cpu_matmul_2(Meter meter, const T* a_, const T* b_, T* c_, Sizes s) {
  const auto a = meter.memory(a_), b = meter.memory(b_);
  const auto c = meter.memory(c_);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) c[i * s.n + j] = 0;
    for (int64_t l = 0; l < s.k; ++l) {
      const T factor = a[i * s.k + l];
      for (int64_t j = 0; j < s.n; ++j) c[i * s.n + j] += factor * b[l * s.n + j];
      meter.multiply_adds(s.n);
    }
  }
}

// --- Version 3: B in blocks that fit in the L2 cache (256 KiB of f32), each used for all rows of A.

PURSUIT_INLINED int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

template <class Meter, class T>
PURSUIT_INLINED void cpu_matmul_3(Meter meter, const T* a_, const T* b_, T* c_, Sizes s) {
  constexpr int64_t depth = 128, width = 512;
  const auto a = meter.memory(a_), b = meter.memory(b_);
  const auto c = meter.memory(c_);
  for (int64_t e = 0; e < s.m * s.n; ++e) c[e] = 0;
  for (int64_t l0 = 0; l0 < s.k; l0 += depth)
    for (int64_t j0 = 0; j0 < s.n; j0 += width) {
      const int64_t l1 = smaller(l0 + depth, s.k), j1 = smaller(j0 + width, s.n);
      for (int64_t i = 0; i < s.m; ++i)
        for (int64_t l = l0; l < l1; ++l) {
          const T factor = a[i * s.k + l];
          for (int64_t j = j0; j < j1; ++j) c[i * s.n + j] += factor * b[l * s.n + j];
          meter.multiply_adds(j1 - j0);
        }
    }
}

// --- Version 4: register tiles. The sums of `rows` rows and `vectors` vectors of columns stay in registers
// over a block of the inner dimension; the block's columns of B are packed first, in order of use.

// A tile's shape: its sums, the vectors of a row of B and one number of A must fit into the registers.
template <int rows_, int vectors_, int bytes_> struct TileShape {
  static constexpr int rows = rows_, vectors = vectors_, bytes = bytes_;
};
using TileOfAvx512 = TileShape<8, 3, 64>;  // 24 + 3 + 1 of 32
using TileOfAvx2 = TileShape<4, 3, 32>;    // 12 + 3 + 1 of 16
using TileOfSse2 = TileShape<4, 2, 16>;    // 8 + 2 + 1 of 16

template <class Shape, class T> constexpr int64_t width_of = Shape::vectors* Shape::bytes / sizeof(T);
constexpr int64_t packed_depth = 256;  // depth of a panel: 48 KiB of f32 for AVX-512

template <class V, class T> PURSUIT_INLINED void load_vector(V& v, const T* p) {
  std::memcpy(&v, p, sizeof v);
}
template <class V, class T, class Meter> PURSUIT_INLINED void load_vector(V& v, const Counted<T, Meter>& p) {
  p.note(false, sizeof v);
  load_vector(v, p.p);
}
template <class V, class T> PURSUIT_INLINED void store_vector(T* p, const V& v) {
  std::memcpy(p, &v, sizeof v);
}
template <class V, class T, class Meter>
PURSUIT_INLINED void store_vector(const Counted<T, Meter>& p, const V& v) {
  p.note(true, sizeof v);
  store_vector(p.p, v);
}

// to [rows, vectors] += a [rows, depth] b [depth, vectors]; a's rows are `lda` apart, to's `ldc`, b's follow
// each other.
template <int rows, class V, int vectors, class Meter, class A, class B, class C>
PURSUIT_INLINED void add_tile(Meter& meter, A a, int64_t lda, B b, int64_t depth, C to, int64_t ldc) {
  using T = std::remove_cvref_t<decltype(V{}[0])>;
  constexpr int lanes = sizeof(V) / sizeof(T);
  V sum[rows][vectors] = {};
  for (int64_t l = 0; l < depth; ++l) {
    V row[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) load_vector(row[v], b + (l * vectors + v) * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const T factor = a[i * lda + l];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[i][v] += factor * row[v];
    }
  }
  meter.multiply_adds(rows * vectors * lanes * depth);
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      V old;
      load_vector(old, to + i * ldc + v * lanes);
      store_vector(to + i * ldc + v * lanes, old + sum[i][v]);
    }
}

// The same for fewer columns than a tile has, through the buffer `edge` of a tile.
template <int rows, class V, int vectors, class Meter, class A, class B, class C>
PURSUIT_INLINED void add_edge(Meter& meter, A a, int64_t lda, B b, int64_t depth, C edge, C to, int64_t ldc,
                              int64_t columns) {
  constexpr int64_t width = vectors * sizeof(V) / sizeof(V{}[0]);
  for (int64_t e = 0; e < rows * width; ++e) edge[e] = 0;
  add_tile<rows, V, vectors>(meter, a, lda, b, depth, edge, width);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[i * ldc + j] += edge[i * width + j];
}

// c [m, columns] += a [m, depth] panel [depth, the tile's width] for all rows; `edge` is a buffer of one
// tile.
template <class Shape, class T, class Meter, class A, class B, class C>
PURSUIT_INLINED void multiply_panel(Meter& meter, int64_t m, A a, int64_t lda, B panel, int64_t depth, C edge,
                                    C c, int64_t ldc, int64_t columns) {
  typedef T V [[gnu::vector_size(Shape::bytes)]];
  constexpr int rows = Shape::rows, vectors = Shape::vectors;
  int64_t i = 0;
  for (; i + rows <= m; i += rows)
    if (columns == width_of<Shape, T>)
      add_tile<rows, V, vectors>(meter, a + i * lda, lda, panel, depth, c + i * ldc, ldc);
    else
      add_edge<rows, V, vectors>(meter, a + i * lda, lda, panel, depth, edge, c + i * ldc, ldc, columns);
  for (; i < m; ++i)
    add_edge<1, V, vectors>(meter, a + i * lda, lda, panel, depth, edge, c + i * ldc, ldc, columns);
}

template <class Shape, class Meter, class T>
PURSUIT_INLINED void cpu_matmul_4(Meter meter, const T* a_, const T* b_, T* c_, Sizes s) {
  constexpr int64_t width = width_of<Shape, T>;
  alignas(64) T panel_[packed_depth * width], edge_[Shape::rows * width];
  const auto a = meter.memory(a_), b = meter.memory(b_);
  const auto c = meter.memory(c_), panel = meter.memory(panel_), edge = meter.memory(edge_);
  for (int64_t e = 0; e < s.m * s.n; ++e) c[e] = 0;
  for (int64_t l0 = 0; l0 < s.k; l0 += packed_depth)
    for (int64_t j0 = 0; j0 < s.n; j0 += width) {
      const int64_t depth = smaller(packed_depth, s.k - l0), columns = smaller(width, s.n - j0);
      for (int64_t l = 0; l < depth; ++l) {
        for (int64_t j = 0; j < columns; ++j) panel[l * width + j] = T(b[(l0 + l) * s.n + j0 + j]);
        for (int64_t j = columns; j < width; ++j) panel[l * width + j] = 0;
      }
      multiply_panel<Shape, T>(meter, s.m, a + l0, s.k, panel, depth, edge, c + j0, s.n, columns);
    }
}

}  // namespace pursuit::laboratory
