// The products of bf16_tiles.h by AMX. Compiled with its own flags; as in rows_isa.inc, only headers without
// code, built-in functions and intrinsics may be used here.
#include <immintrin.h>

#include "engine/cpu/bf16_tiles.h"

#define PURSUIT_AMX
namespace pursuit::rows_amx_bf16 {
namespace {
using real = float;
// clang-format off
#include "engine/cpu/rows/math.inc"
#include "engine/cpu/rows/transpose.inc"
#include "engine/cpu/rows/tiles.inc"
#include "engine/cpu/rows/bf16.inc"
#include "engine/cpu/rows/amx.inc"
// clang-format on

// The inner dimension is cut into steps of a tile; what the last one lacks is filled with zeros.
constexpr int64_t step_numbers = 32, step_pairs = 16;
constexpr int64_t most_steps = 32;  // at a time: a panel of packed B is at most 64 KiB

int64_t steps_of(int64_t k) { return parts_of(k, step_numbers); }

// Zeros from pair `from` of a panel to the end of its last step.
void clear_pairs(uint32_t* panel, int64_t padded, int64_t from, int64_t steps) {
  for (int64_t l = from * padded; l < steps * step_pairs * padded; l += lanes)
    _mm512_storeu_si512(panel + l, _mm512_setzero_si512());
}

// The panel [pairs of `steps` steps, padded] of `depth` rows of op(b); see pack_pairs.
void pack_panel(bool transposed, const uint16_t* b, int64_t ldb, int64_t depth, int64_t width, int64_t padded,
                uint32_t* to) {
  pack_pairs(transposed, b, ldb, depth, width, padded, to);
  clear_pairs(to, padded, parts_of(depth, 2), steps_of(depth));
}

// The tile of rows [0, rows) and numbers [0, count) of x, and zeros.
void copy_tile(const uint16_t* x, int64_t ld, int64_t rows, int64_t count, void* to) {
  const __mmask32 some = count < step_numbers ? (__mmask32(1) << count) - 1 : ~__mmask32(0);
  for (int64_t i = 0; i < tile_side; ++i)
    _mm512_storeu_si512(static_cast<char*>(to) + i * row_bytes,
                        i < rows ? _mm512_maskz_loadu_epi16(some, x + i * ld) : _mm512_setzero_si512());
}

// Tile by tile along each 16 rows: A^T of a [depth, m] in pairs. A square of pairs is 16 columns of a.
void pack_transposed(const uint16_t* a, int64_t lda, int64_t m, int64_t depth, uint32_t* to) {
  for (int64_t i = 0; i < m; i += tile_side)
    for (int64_t s = 0; s < steps_of(depth); ++s, to += tile_side * step_pairs) {
      const uint16_t* const from = a + s * step_numbers * lda + i;
      pack_panel(false, from, lda, smaller(depth - s * step_numbers, step_numbers), smaller(m - i, tile_side),
                 tile_side, to);
      auto* const square = reinterpret_cast<float*>(to);
      transpose_square(square, tile_side, square, tile_side);
    }
}

// sums [16 R, 16 V] = the product of `steps` steps of a and of the panel b, and of one more of a_end and
// b_end if there is one; with `add`, plus what sums were.
template <int R, int V> inline void multiply_tiles(const LeftTiles& a, const uint32_t* b, int64_t padded,
                                                   int64_t steps, const LeftTiles& a_end,
                                                   const uint32_t* b_end, bool add, float* sums, int64_t ld) {
  finish_stores(a.first);
  finish_stores(a_end.first);
  finish_stores(b_end);
  if (add) {
    finish_stores(sums);
    _tile_loadd(0, sums, 4 * ld);
    if constexpr (V > 1) _tile_loadd(1, sums + tile_side, 4 * ld);
    if constexpr (R > 1) _tile_loadd(2, sums + tile_side * ld, 4 * ld);
    if constexpr (R > 1 && V > 1) _tile_loadd(3, sums + tile_side * ld + tile_side, 4 * ld);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const auto multiply = [=](const LeftTiles& of, int64_t s, const uint32_t* right)
      __attribute__((always_inline)) {
    _tile_loadd(4, of.step(s), of.row);
    _tile_loadd(6, right, 4 * padded);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (V > 1) {
      _tile_loadd(7, right + tile_side, 4 * padded);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (R > 1) {
      _tile_loadd(5, of.step(s) + of.down, of.row);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (V > 1) _tile_dpbf16ps(3, 5, 7);
    }
  };
  for (int64_t s = 0; s < steps; ++s) multiply(a, s, b + s * step_pairs * padded);
  if (a_end.first) multiply(a_end, 0, b_end);
  _tile_stored(0, sums, 4 * ld);
  if constexpr (V > 1) _tile_stored(1, sums + tile_side, 4 * ld);
  if constexpr (R > 1) _tile_stored(2, sums + tile_side * ld, 4 * ld);
  if constexpr (R > 1 && V > 1) _tile_stored(3, sums + tile_side * ld + tile_side, 4 * ld);
}

// Where a product's left factor lies: numbers in place, number k of row i at a[i * lda + k], or tiles as
// pack_transposed makes them.
struct Left {
  const uint16_t* a;
  int64_t lda;
  const uint32_t* tiles;
};

// c [R tiles of rows from i, width] = alpha a b + beta c. In place, where there are at least 16 rows, tiles
// end with the last row and may overlap; what an earlier one has stored is left alone.
template <int R, int V, class Out>
[[gnu::noinline]] void amx_block(const Left& left, int64_t m, int64_t i, int64_t depth, const uint32_t* b,
                                 const uint32_t* b_end, float alpha, float beta, Out* c, int64_t ldc,
                                 int64_t width) {
  constexpr int64_t padded = V * lanes;
  alignas(64) float sums[R * tile_side * padded];
  alignas(64) char copies[R * tile_bytes];
  int64_t begin[R];  // the first row of each tile
  const int64_t whole = depth / step_numbers, more = depth % step_numbers;
  LeftTiles a, end{};
  if (left.tiles) {
    for (int64_t t = 0; t < R; ++t) begin[t] = i + t * tile_side;
    const int64_t steps = steps_of(depth);
    a = {left.tiles + i * steps * step_pairs, row_bytes, steps * tile_bytes, tile_bytes};
    if (more) end = {a.step(whole), a.row, a.down, 0};
  } else {
    for (int64_t t = 0; t < R; ++t) begin[t] = smaller(i + t * tile_side, m - tile_side);
    a = {left.a + begin[0] * left.lda, 2 * left.lda, 2 * left.lda * (begin[R - 1] - begin[0]), row_bytes};
    if (more) {
      for (int64_t t = 0; t < R; ++t)
        copy_tile(left.a + begin[t] * left.lda + whole * step_numbers, left.lda, tile_side, more,
                  copies + t * tile_bytes);
      end = {copies, row_bytes, tile_bytes, 0};
    }
  }
  if constexpr (sizeof(Out) == sizeof(float))
    if (alpha == 1 && (beta == 0 || beta == 1) && width >= padded && i + R * tile_side <= m)
      return multiply_tiles<R, V>(a, b, padded, whole, end, b_end, beta == 1, c + i * ldc, ldc);
  multiply_tiles<R, V>(a, b, padded, whole, end, b_end, false, sums, padded);
  for (int64_t t = 0; t < R; ++t)
    for (int64_t row = i + t * tile_side; row < smaller(m, i + (t + 1) * tile_side); ++row) {
      const float* const from = sums + (t * tile_side + row - begin[t]) * padded;
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        const int64_t some = width - v * lanes;
        store_lanes(c + row * ldc + v * lanes, alpha * load(from + v * lanes), beta,
                    some >= lanes ? __mmask16(0xffff)
                    : some > 0    ? __mmask16((1u << some) - 1)
                                  : __mmask16(0));
      }
    }
}

// The columns of c of one panel.
template <class Out> void amx_panel(const Left& left, int64_t m, int64_t depth, const uint32_t* panel,
                                    const uint32_t* panel_end, int64_t padded, float alpha, float beta,
                                    Out* c, int64_t ldc, int64_t width) {
  const auto block = [&]<int R>(int64_t i) {
    if (padded > lanes)
      amx_block<R, 2>(left, m, i, depth, panel, panel_end, alpha, beta, c, ldc, width);
    else
      amx_block<R, 1>(left, m, i, depth, panel, panel_end, alpha, beta, c, ldc, width);
  };
  for (int64_t i = 0; i < m; i += 2 * tile_side)
    if (m - i > tile_side)
      block.template operator()<2>(i);
    else
      block.template operator()<1>(i);
}

// Fewer than 16 rows are copied, with zeros for the others.
class FewRows {
 public:
  const uint32_t* pack(const uint16_t* a, int64_t lda, int64_t m, int64_t depth) {
    for (int64_t s = 0; s < steps_of(depth); ++s)
      copy_tile(a + s * step_numbers, lda, m, depth - s * step_numbers, tiles_ + s * tile_side * step_pairs);
    return tiles_;
  }

 private:
  alignas(64) uint32_t tiles_[most_steps * tile_side * step_pairs];
};

int64_t workspace_size(bool ta, int64_t m, int64_t k) {
  return ta ? parts_of(m, tile_side) * tile_side * step_pairs * smaller(steps_of(k), most_steps) : 0;
}

int64_t depth_of(int64_t k, int64_t s0, int64_t steps) {
  return smaller(k - step_numbers * s0, step_numbers * steps);
}

template <class Out> void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                               const uint16_t* a, int64_t lda, const uint16_t* b, int64_t ldb, float beta,
                               Out* c, int64_t ldc, uint32_t* workspace) {
  const Tiles tiles;
  alignas(64) uint32_t panel[most_steps * step_pairs * widest_tile * lanes];
  FewRows few;
  Left left{};
  for_each_panel(n, steps_of(k), most_steps, [&](int64_t s0, int64_t steps, int64_t j, int64_t padded) {
    const int64_t k0 = s0 * step_numbers, depth = depth_of(k, s0, steps), width = smaller(n - j, padded);
    if (j == 0) {
      if (ta) pack_transposed(a + k0 * lda, lda, m, depth, workspace);
      left = {a + k0, lda, ta ? workspace : m < tile_side ? few.pack(a + k0, lda, m, depth) : nullptr};
    }
    pack_panel(tb, tb ? b + j * ldb + k0 : b + k0 * ldb + j, ldb, depth, width, padded, panel);
    amx_panel(left, m, depth, panel, panel + depth / step_numbers * step_pairs * padded, padded, alpha,
              s0 == 0 ? beta : 1, c + j, ldc, width);
  });
}

int64_t packed_size(int64_t n, int64_t k) { return parts_of(n, lanes) * lanes * steps_of(k) * step_pairs; }

// Where the panel of columns from j of the steps from s0 on begins.
int64_t panel_at(int64_t n, int64_t s0, int64_t steps, int64_t j) {
  return packed_size(n, s0 * step_numbers) + steps * step_pairs * j;
}

void pack(bool tb, int64_t n, int64_t k, const uint16_t* b, int64_t ldb, int64_t part, int64_t parts,
          uint32_t* to) {
  int64_t number = 0;
  for_each_panel(n, steps_of(k), most_steps, [&](int64_t s0, int64_t steps, int64_t j, int64_t padded) {
    const int64_t k0 = s0 * step_numbers;
    if (number++ % parts == part)
      pack_panel(tb, tb ? b + j * ldb + k0 : b + k0 * ldb + j, ldb, depth_of(k, s0, steps),
                 smaller(n - j, padded), padded, to + panel_at(n, s0, steps, j));
  });
}

template <class Out> void gemm_packed(int64_t m, int64_t n, int64_t k, float alpha, const uint16_t* a,
                                      int64_t lda, Packed<uint32_t> b, float beta, Out* c, int64_t ldc) {
  const Tiles tiles;
  FewRows few;
  Left left{};
  alignas(64) uint32_t end[step_pairs * widest_tile * lanes];
  for_each_panel(b.n, steps_of(b.k), most_steps, [&](int64_t s0, int64_t steps, int64_t j, int64_t padded) {
    const int64_t k0 = s0 * step_numbers;
    if (k0 >= k || j >= n) return;
    const int64_t depth = depth_of(k, s0, steps), whole = depth / step_numbers;
    const uint32_t* const panel = b.numbers + panel_at(b.n, s0, steps, j);
    const uint32_t* panel_end = panel + whole * step_pairs * padded;
    if (k < b.k && depth % step_numbers != 0) {  // further rows of b may be NaN
      const int64_t pairs = (depth - whole * step_numbers) / 2;
      __builtin_memcpy(end, panel_end, size_t(4 * pairs * padded));
      clear_pairs(end, padded, pairs, 1);
      panel_end = end;
    }
    if (j == 0) left = {a + k0, lda, m < tile_side ? few.pack(a + k0, lda, m, depth) : nullptr};
    amx_panel(left, m, depth, panel, panel_end, padded, alpha, s0 == 0 ? beta : 1, c + j, ldc,
              smaller(n - j, padded));
  });
}

int64_t multiply_adds(int64_t rounds) {
  const Tiles tiles;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  const int64_t turns = parts_of(rounds, 8);
  for (int64_t i = 0; i < turns; ++i) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  return turns * 4 * tile_side * tile_side * step_numbers;
}

}  // namespace

extern const Bf16Tiles tiles;
const Bf16Tiles tiles = {
    .isa = "amx",
    .workspace_size = workspace_size,
    .gemm = gemm<float>,
    .packed_size = packed_size,
    .pack = pack,
    .gemm_packed = gemm_packed<float>,
    .max_depth = most_steps * step_numbers,
    .gemm_rounded = gemm<uint16_t>,
    .gemm_packed_rounded = gemm_packed<uint16_t>,
    .few_rows = few_rows,
    .multiply_adds = multiply_adds,
};

}  // namespace pursuit::rows_amx_bf16
