#pragma once
#include <algorithm>

#include "engine/cpu/right_factor.h"

// The three products of a linear layer y = x w^T on the CPU. Every sum is computed by one thread:
// results do not depend on the number of threads. x [rows, in], w [out, in], y [rows, out], all
// contiguous.
namespace pursuit {

// Rows are split at multiples of 8, the height of a register tile.
constexpr int64_t dense_unit = 8;
inline int64_t units_of(int64_t rows) { return (rows + dense_unit - 1) / dense_unit; }
inline int64_t row_of(int64_t unit, int64_t rows) { return std::min(unit * dense_unit, rows); }

// Units per piece: at most so many that the outputs are still in the L2 cache when the next step reads
// them (by tiles of bf16 fewer: sums in f32 lie beside their rounded copy), at least so many that reading the
// other operand pays off (where products of bf16 widen it, each one does so anew).
constexpr int64_t most_units = 40, most_bf16_units = 16, least_units = 8;

// Calls body(row, rows) on units [begin, end) in equal pieces of at most `most`; once with no rows if there
// are none.
template <class F>
void for_each_piece(int64_t begin, int64_t end, int64_t most, int64_t rows, const F& body) {
  const int64_t size = end - begin, pieces = std::max<int64_t>(1, (size + most - 1) / most);
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t r = row_of(begin + size * i / pieces, rows);
    body(r, row_of(begin + size * (i + 1) / pieces, rows) - r);
  }
}

// The same in parallel, for products of T.
template <class T, class F> void for_each_chunk(int64_t rows, const F& body) {
  const int64_t units = units_of(rows);
  const bool narrow = std::is_same_v<T, bf16>, reads_whole = narrow && !bf16_tiles();
  const int64_t least = reads_whole ? one_range_each(units, 1) : least_units;
  const int64_t most = narrow && !reads_whole ? most_bf16_units : most_units;
  parallel_for(units, least,
               [&](int64_t begin, int64_t end) { for_each_piece(begin, end, most, rows, body); });
}

// Calls body(row, rows) on rows of `width` numbers that are then stored as T: for bf16 on so few that the L1
// cache holds them until they are rounded.
template <class T, class F> void for_each_group(int64_t rows, int64_t width, const F& body) {
  const int64_t few = std::max<int64_t>(1, 2048 / std::max<int64_t>(1, width));
  const int64_t most = std::is_same_v<T, bf16> ? few : std::max<int64_t>(1, rows);
  for (int64_t i = 0; i < rows; i += most) body(i, std::min(most, rows - i));
}

// y = sums + bias + residual, all [rows, width], bias [width]; bias and residual are nullable. Changes sums.
// Uses scratch slot 2.
template <class R, class Y>
void store_sums(Rows<R> sums, const R* bias, const Y* residual, Y* y, int64_t rows, int64_t width) {
  for_each_group<Y>(rows, width, [&](int64_t i, int64_t m) {
    R* const group = sums.at(i);
    const R* plus = nullptr;
    if (residual)
      plus = read_rows(residual + i * width, width, m, width, scratch<R>(2, copied<Y>(m * width))).p;
    if (bias)
      pursuit::rows<R>().bias_rows(group, bias, plus, m, width, width, width);
    else if (plus)
      pursuit::rows<R>().add(group, plus, group, m * width);
    store_rows(y + i * width, width, m, width, Rows<R>{group, width});
  });
}

// gx = gy w
template <class T>
void dense_input_gradient(const T* gy, const T* w, T* gx, int64_t rows, int64_t in, int64_t out) {
  const RightFactor<T> factor(layout_of_weight(rows, false), false, w, in, out, in, 4);
  for_each_chunk<T>(rows,
                    [&](int64_t r, int64_t m) { factor.multiply(m, gy + r * out, out, gx + r * in, in); });
}

// gw = gy^T x + beta gw, with gw cut into one piece per thread, as square as possible: a piece reads its
// columns of gy and x from memory.
template <class T, class C> void dense_weight_gradient(const T* gy, const T* x, C* gw, int64_t rows,
                                                       int64_t in, int64_t out, compute_t<T> beta = 0) {
  using R = compute_t<T>;
  const int64_t threads = num_threads();
  const auto columns_read = [&](int64_t across) { return in / across + out / (threads / across); };
  int64_t across = 1;
  for (int64_t a = 2; a <= threads; ++a)
    if (threads % a == 0 && columns_read(a) <= columns_read(across)) across = a;
  const int64_t down = threads / across;
  parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t i = piece / across, j = piece % across;
      const int64_t row = out * i / down, col = in * j / across;
      gemm(true, false, out * (i + 1) / down - row, in * (j + 1) / across - col, rows, R(1), gy + row, out,
           x + col, in, beta, gw + row * in + col, in);
    }
  });
}

// gb = sum of gy's rows; with `add`, gb is added (f32 and f64)
template <class T> void dense_bias_gradient(const T* gy, T* gb, int64_t n, int64_t out, bool add = false) {
  using R = compute_t<T>;
  parallel_for(out, one_range_each(out, 64), [&](int64_t begin, int64_t end) {
    const int64_t width = end - begin;
    if constexpr (std::is_same_v<T, bf16>) {
      R* sum = scratch<R>(0, 2 * width);
      std::fill_n(sum, width, R(0));
      for (int64_t i = 0; i < n; ++i) {
        rows<R>().bf16_to_f32(words(gy + i * out + begin), sum + width, width);
        rows<R>().axpy(R(1), sum + width, sum, width);
      }
      rows<R>().f32_to_bf16(sum, words(gb + begin), width);
    } else {
      rows<R>().column_sums(gy + begin, n, width, out, gb + begin, add);
    }
  });
}

}  // namespace pursuit
