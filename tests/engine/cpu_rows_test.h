#pragma once
// Shared by the tests of the CPU row kernels: guarded matrices, comparison, and a loop over instruction sets.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/cpu/rows.h"

namespace pursuit::cpu_rows_test {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr std::array<int64_t, 7> kSizes = {0, 1, 7, 16, 33, 197, 768};

// Every instruction set this CPU has.
inline std::vector<const RowKernels<float>*> all_kernels() {
  std::vector<const RowKernels<float>*> found;
  for (const char* isa : {"sse2", "avx2", "avx512"}) {
    if (isa_supported(isa)) {
      found.push_back(&choose_rows(isa));
    } else {
      MESSAGE("this CPU lacks " << std::string(isa) << ": its kernels are not tested");
    }
  }
  return found;
}

// A matrix with padding after every row and around all rows, which kernels must not change.
template <typename T> struct Matrix {
  static constexpr int64_t kPad = 19;
  int64_t rows, cols, ld;
  std::vector<T> storage;
  T guard;

  Matrix(int64_t height, int64_t width, bool dense = false)
      : rows(height), cols(width), ld(dense ? width : width + 5), guard(static_cast<T>(77)) {
    storage.assign(static_cast<size_t>(rows * ld + 2 * kPad), guard);
  }
  T* data() { return storage.data() + kPad; }
  T& operator()(int64_t i, int64_t j) { return data()[i * ld + j]; }
  T& operator[](int64_t j) { return data()[j]; }

  template <typename Make> Matrix& fill(Make make) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) (*this)(i, j) = static_cast<T>(make());
    return *this;
  }
  bool intact() {
    for (int64_t at = -kPad; at < rows * ld + kPad; ++at) {
      const bool cell = at >= 0 && at < rows * ld && at % ld < cols;
      if (!cell && data()[at] != guard) return false;
    }
    return true;
  }
};
using Floats = Matrix<float>;

inline std::function<double()> normal(unsigned seed, double spread = 1.0) {
  return [engine = std::mt19937(seed), draw = std::normal_distribution<double>(0.0, spread)]() mutable {
    return draw(engine);
  };
}

// Fails on NaN where a number is expected, and on a number where NaN is expected.
inline bool close(double got, double want, double relative, double absolute) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= relative * std::abs(want) + absolute;
}

// Compares every entry with want(i, j) and checks that nothing else was written.
template <typename Want> void check_matrix(Floats& got, Want want, double relative, double absolute) {
  for (int64_t i = 0; i < got.rows; ++i) {
    for (int64_t j = 0; j < got.cols; ++j) {
      const double expected = want(i, j);
      if (!close(got(i, j), expected, relative, absolute)) {
        FAIL_CHECK("entry (" << i << ", " << j << ") of " << got.rows << " x " << got.cols << ": got "
                             << got(i, j) << ", want " << expected);
        return;
      }
    }
  }
  CHECK(got.intact());
}

template <typename Test> void for_each_size(Test test) {
  for (const RowKernels<float>* kernels : all_kernels()) {
    for (int64_t cols : kSizes) {
      CAPTURE(std::string(kernels->isa));
      CAPTURE(cols);
      test(*kernels, cols);
    }
  }
}

// softmax, log-sum-exp and maximum of the visible part of a row, in double.
inline std::vector<double> softmax(Floats& s, int64_t i, int64_t visible, double* lse = nullptr) {
  double largest = -kInf, sum = 0.0;
  for (int64_t j = 0; j < visible; ++j) largest = std::max(largest, static_cast<double>(s(i, j)));
  std::vector<double> p(static_cast<size_t>(s.cols), 0.0);
  if (largest > -kInf) {
    for (int64_t j = 0; j < visible; ++j) sum += p[j] = std::exp(static_cast<double>(s(i, j)) - largest);
    for (int64_t j = 0; j < visible; ++j) p[j] /= sum;
  }
  if (lse) *lse = largest > -kInf ? largest + std::log(sum) : -kInf;
  return p;
}

}  // namespace pursuit::cpu_rows_test
