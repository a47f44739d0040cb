#pragma once
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "engine/core/tensor.h"

// How far numbers are off. Where one of them is not finite the result is NaN, with which no comparison holds: write
// CHECK(off <= bound), never CHECK_FALSE(off > bound).

// The larger of two errors. std::max keeps a NaN or drops it by the order of the two.
inline double larger(double a, double b) {
  return std::isfinite(a) && std::isfinite(b) ? std::max(a, b) : NAN;
}

// The largest magnitude. Throws Error if there are no numbers.
inline double largest_magnitude(std::span<const double> a) {
  if (a.empty()) pursuit::fail("differences", "there are no numbers to compare");
  double most = 0;
  for (const double x : a) most = larger(most, std::fabs(x));
  return most;
}
inline double largest_magnitude(const pursuit::Tensor& a) { return largest_magnitude(a.to_vector()); }

// The largest difference of two numbers at the same place. Throws Error if there are none, or not as many of each.
inline double largest_difference(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size())
    pursuit::fail("differences", std::to_string(a.size()) + " numbers beside " + std::to_string(b.size()));
  std::vector<double> off(a.begin(), a.end());
  for (size_t i = 0; i < off.size(); ++i) off[i] -= b[i];
  return largest_magnitude(off);
}
// The same of tensors of one shape, of any dtype and device.
inline double largest_difference(const pursuit::Tensor& a, const pursuit::Tensor& b) {
  if (a.shape() != b.shape())
    pursuit::fail("differences", "shapes " + a.shape().str() + " and " + b.shape().str());
  return largest_difference(a.to_vector(), b.to_vector());
}
