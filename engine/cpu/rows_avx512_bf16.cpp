// The products of bf16_tiles.h. Compiled with its own flags; as in rows_isa.inc, only headers without code,
// built-in functions and intrinsics may be used here.
#include <immintrin.h>

#include "engine/cpu/bf16_tiles.h"

namespace pursuit::rows_avx512_bf16 {
namespace {
using real = float;
// clang-format off
#include "engine/cpu/rows/math.inc"
#include "engine/cpu/rows/transpose.inc"
#include "engine/cpu/rows/tiles.inc"
#include "engine/cpu/rows/peak.inc"
#include "engine/cpu/rows/bf16.inc"
// clang-format on

// Depths are in pairs of numbers.
constexpr int64_t bf16_depth = 512;  // a panel of packed B is at most 128 KiB

// c [R, width] = alpha a b + beta c for packed b [pairs of depth, V * lanes]. Number k of row i is a[i * lda
// + k]; if `paired`, a is packed like b, and pair p of row i is number p * lda + i.
template <int R, int V, bool paired, class Out>
[[gnu::noinline]] void bf16_tile(const void* a_words, int64_t lda, const uint32_t* b, int64_t depth,
                                 float alpha, float beta, Out* c, int64_t ldc, int64_t width) {
  const auto* a = static_cast<const char*>(a_words);
  const int64_t row_bytes = paired ? 4 : 2 * lda, pair_bytes = paired ? 4 * lda : 4;
  Vector sum[R][V] = {};
  const auto add = [&](const auto& pair_of_row) __attribute__((always_inline)) {
    Vector row[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) row[v] = load_pairs(b + v * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const Vector ai = Vector(_mm512_set1_epi32(pair_of_row(i)));
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[i][v] = dot(sum[i][v], ai, row[v]);
    }
    b += V * lanes;
  };
  const int64_t whole = paired ? parts_of(depth, 2) : depth / 2;
  for (int64_t p = 0; p < whole; ++p) {
    add([&](int i) __attribute__((always_inline)) {
      int pair;
      __builtin_memcpy(&pair, a + i * row_bytes, 4);
      return pair;
    });
    a += pair_bytes;
  }
  // The last number of an odd depth: the next one may belong to another row, or be NaN.
  if (!paired && depth % 2 != 0)
    add([&](int i) {
      uint16_t last;
      __builtin_memcpy(&last, a + i * row_bytes, 2);
      return int(last);
    });
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const int64_t left = width - v * lanes;
      store_lanes(c + i * ldc + v * lanes, alpha * sum[i][v], beta,
                  left >= lanes ? __mmask16(0xffff)
                  : left > 0    ? __mmask16((1u << left) - 1)
                                : __mmask16(0));
    }
  }
}

// The columns of c of one panel: `depth` numbers from pair p0.
template <class Out> void bf16_panel(const uint32_t* paired, int64_t m, int64_t n, float alpha,
                                     const uint16_t* a, int64_t lda, const uint32_t* panel, int64_t p0,
                                     int64_t depth, int64_t j, int64_t padded, float beta, Out* c,
                                     int64_t ldc) {
  const int64_t width = smaller(n - j, padded), vectors = padded / lanes,
                tiles = parts_of(m, tile_rows(vectors));
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t i = m * tile / tiles, rows = m * (tile + 1) / tiles - i;
    with_tile(rows, vectors, [&]<int R, int V> {
      Out* const to = c + i * ldc + j;
      const float kept = p0 == 0 ? beta : 1;
      if (paired)
        bf16_tile<R, V, true>(paired + i, m, panel, depth, alpha, kept, to, ldc, width);
      else
        bf16_tile<R, V, false>(a + i * lda + 2 * p0, lda, panel, depth, alpha, kept, to, ldc, width);
    });
  }
}

int64_t depth_of(int64_t k, int64_t p0, int64_t pairs) { return smaller(k - 2 * p0, 2 * pairs); }

int64_t workspace_size(bool ta, int64_t m, int64_t k) {
  return ta ? m * smaller(parts_of(k, 2), bf16_depth) : 0;
}

template <class Out> void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                               const uint16_t* a, int64_t lda, const uint16_t* b, int64_t ldb, float beta,
                               Out* c, int64_t ldc, uint32_t* workspace) {
  alignas(64) uint32_t panel[bf16_depth * widest_tile * lanes];
  for_each_panel(n, parts_of(k, 2), bf16_depth, [&](int64_t p0, int64_t pairs, int64_t j, int64_t padded) {
    const int64_t depth = depth_of(k, p0, pairs), width = smaller(n - j, padded);
    if (ta && j == 0) pack_pairs(false, a + 2 * p0 * lda, lda, depth, m, m, workspace);
    pack_pairs(tb, tb ? b + j * ldb + 2 * p0 : b + 2 * p0 * ldb + j, ldb, depth, width, padded, panel);
    bf16_panel(ta ? workspace : nullptr, m, n, alpha, a, lda, panel, p0, depth, j, padded, beta, c, ldc);
  });
}

int64_t packed_size(int64_t n, int64_t k) { return parts_of(n, lanes) * lanes * parts_of(k, 2); }

void pack(bool tb, int64_t n, int64_t k, const uint16_t* b, int64_t ldb, int64_t part, int64_t parts,
          uint32_t* to) {
  int64_t number = 0;
  for_each_panel(n, parts_of(k, 2), bf16_depth, [&](int64_t p0, int64_t pairs, int64_t j, int64_t padded) {
    if (number++ % parts == part)
      pack_pairs(tb, tb ? b + j * ldb + 2 * p0 : b + 2 * p0 * ldb + j, ldb, depth_of(k, p0, pairs),
                 smaller(n - j, padded), padded, to + packed_size(n, 2 * p0) + pairs * j);
  });
}

template <class Out> void gemm_packed(int64_t m, int64_t n, int64_t k, float alpha, const uint16_t* a,
                                      int64_t lda, Packed<uint32_t> b, float beta, Out* c, int64_t ldc) {
  for_each_panel(
      b.n, parts_of(b.k, 2), bf16_depth, [&](int64_t p0, int64_t pairs, int64_t j, int64_t padded) {
        if (2 * p0 < k && j < n)
          bf16_panel(nullptr, m, n, alpha, a, lda, b.numbers + packed_size(b.n, 2 * p0) + pairs * j, p0,
                     depth_of(k, p0, pairs), j, padded, beta, c, ldc);
      });
}

int64_t multiply_adds(int64_t rounds) {
  return rounds * 2 *
         multiply_add_rounds([](Vector sum, Vector a, Vector b) { return dot(sum, a, b); }, rounds);
}

}  // namespace

extern const Bf16Tiles tiles;
const Bf16Tiles tiles = {
    .isa = "avx512",
    .workspace_size = workspace_size,
    .gemm = gemm<float>,
    .packed_size = packed_size,
    .pack = pack,
    .gemm_packed = gemm_packed<float>,
    .max_depth = 2 * bf16_depth,
    .gemm_rounded = gemm<uint16_t>,
    .gemm_packed_rounded = gemm_packed<uint16_t>,
    .few_rows = few_rows,
    .multiply_adds = multiply_adds,
};

}  // namespace pursuit::rows_avx512_bf16
