#include <doctest/doctest.h>

#include "engine/core/tensor.h"
#include "engine/cpu/rows.h"

using namespace pursuit;

// A vector of 16 lanes adds 16 numbers with one instruction. Each partial sum is smaller than a single sum,
// so rounding errors are smaller. The order is fixed, so all instruction sets give the same bits.
TEST_CASE("exercise: sixteen partial sums beside one") {
  const Tensor numbers = uniform({4096}, 0, 1, /*seed*/ 1, /*stream*/ 0);
  const float* x = numbers.data<float>();
  double exact = 0;
  float one = 0, lane[16] = {};
  for (int i = 0; i < 4096; ++i) {
    exact += double(x[i]);
    one += x[i];
    lane[i % 16] += x[i];
  }
  for (int lanes = 8; lanes > 0; lanes /= 2)
    for (int l = 0; l < lanes; ++l) lane[l] += lane[l + lanes];
  CHECK(lane[0] == float(rows<float>().abs_sum_rows(x, 1, 4096, 4096)));
  CHECK(std::abs(double(lane[0]) - exact) < std::abs(double(one) - exact) / 4);
}
