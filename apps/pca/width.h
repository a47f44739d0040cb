#pragma once
#include <cstdint>
#include <type_traits>

namespace pursuit::pca {

// Calls f(d), with a constant where d is the 5 of all published experiments on drawn prompts, so that loops
// over a token unroll.
template <class F> void with_width(int64_t d, const F& f) {
  if (d == 5)
    f(std::integral_constant<int64_t, 5>());
  else
    f(d);
}

}  // namespace pursuit::pca
