#pragma once
#include "apps/examples/laboratory/cpu_matmul.h"

// The solution of exercise 3: C = A B^T for B [n, k], the layout of a linear layer's weights. Version 4 with
// another packing: rows of B become columns of the panel. Nothing else depends on B's layout.
namespace pursuit::laboratory {

template <class Shape, class Meter, class T>
PURSUIT_INLINED void cpu_matmul_5(Meter meter, const T* a_, const T* b_, T* c_, Sizes s) {
  constexpr int64_t width = width_of<Shape, T>;
  alignas(64) T panel_[packed_depth * width], edge_[Shape::rows * width];
  const auto a = meter.memory(a_), b = meter.memory(b_);
  const auto c = meter.memory(c_), panel = meter.memory(panel_), edge = meter.memory(edge_);
  for (int64_t e = 0; e < s.m * s.n; ++e) c[e] = 0;
  for (int64_t l0 = 0; l0 < s.k; l0 += packed_depth)
    for (int64_t j0 = 0; j0 < s.n; j0 += width) {
      const int64_t depth = smaller(packed_depth, s.k - l0), columns = smaller(width, s.n - j0);
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t l = 0; l < depth; ++l) panel[l * width + j] = T(b[(j0 + j) * s.k + l0 + l]);
      for (int64_t j = columns; j < width; ++j)
        for (int64_t l = 0; l < depth; ++l) panel[l * width + j] = 0;
      multiply_panel<Shape, T>(meter, s.m, a + l0, s.k, panel, depth, edge, c + j0, s.n, columns);
    }
}

}  // namespace pursuit::laboratory
