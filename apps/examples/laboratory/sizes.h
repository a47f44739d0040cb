#pragma once
#include <cstdint>

namespace pursuit::laboratory {

// Sizes of a matrix product: A [m, k], B [k, n], C [m, n].
struct Sizes {
  int64_t m, n, k;
};

}  // namespace pursuit::laboratory
