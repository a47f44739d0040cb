#include "nn/quantization/ranges.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/error.h"
#include "engine/cpu/int8_kernels.h"

namespace pursuit::nn {

namespace {

// The k-th smallest numbers around the place `at` of a sorted list, interpolated.
double order_statistic(std::vector<float>& x, double at) {
  const auto below = x.begin() + std::ptrdiff_t(at);
  std::nth_element(x.begin(), below, x.end());
  const double low = *below, rest = at - std::floor(at);
  if (rest == 0 || below + 1 == x.end()) return low;
  return low + rest * (double(*std::min_element(below + 1, x.end())) - low);
}

ValueRange percentile_range(std::span<const float> values, double percentile) {
  std::vector<float> x(values.begin(), values.end());
  const double last = double(x.size() - 1), share = percentile / 100;
  return {order_statistic(x, last * (1 - share)), order_statistic(x, last * share)};
}

// Where f is least between a and b, if it has one minimum there.
template <class F> double golden_section(double a, double b, const F& f) {
  constexpr double ratio = 0.6180339887498949;
  double c = b - ratio * (b - a), d = a + ratio * (b - a), at_c = f(c), at_d = f(d);
  for (int i = 0; i < 30; ++i) {
    if (at_c <= at_d) {
      b = d, d = c, at_d = at_c;
      c = b - ratio * (b - a), at_c = f(c);
    } else {
      a = c, c = d, at_c = at_d;
      d = a + ratio * (b - a), at_d = f(d);
    }
  }
  return (a + b) / 2;
}

// One number of each of at most 2^17 equal parts. Its place within the part differs from part to part: numbers
// at equal distances would all be of a few channels where the distance and the width have a common divisor.
std::vector<float> sample_of(std::span<const float> values) {
  constexpr size_t most = size_t(1) << 17, odd = 2654435769;  // 2^32 / the golden ratio: places spread evenly
  const size_t part = (values.size() + most - 1) / most;
  std::vector<float> x;
  for (size_t i = 0; i * part < values.size(); ++i)
    if (const size_t at = i * part + (((i * odd) & 0xffffffff) * part >> 32); at < values.size())
      x.push_back(values[at]);
  return x;
}

ValueRange least_error_range(std::span<const float> values, const ValueRange& all, int64_t bits) {
  const std::vector<float> x = sample_of(values);
  std::vector<float> rounded(x.size());
  const auto error = [&](const ValueRange& range) {
    int8_kernels().fake_quantize(x.data(), rounded.data(), int64_t(x.size()), asymmetric_grid(range, bits));
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double difference = double(rounded[i]) - double(x[i]);
      sum += difference * difference;
    }
    return sum;
  };
  const auto scaled = [&](double factor) { return ValueRange{factor * all.low, factor * all.high}; };
  ValueRange best = scaled(golden_section(0.01, 1, [&](double factor) { return error(scaled(factor)); }));
  const auto shifted = [base = best](double by) { return ValueRange{base.low + by, base.high + by}; };
  const double far = double(asymmetric_grid(best, bits).step) * double(1 << bits) / 4;
  const ValueRange moved = shifted(golden_section(-far, far, [&](double by) { return error(shifted(by)); }));
  if (error(moved) < error(best)) best = moved;
  return error(best) < error(all) ? best : all;  // where the error has several minima
}

}  // namespace

AffineGrid asymmetric_grid(const ValueRange& range, int64_t bits) {
  const int32_t levels = (1 << bits) - 1;
  const double low = std::min(range.low, 0.0), high = std::max(range.high, 1e-8);
  const float step = float(std::max((high - low) / levels, 1e-8));
  const double zero = std::nearbyint(-low / double(step));
  return {step, int32_t(std::clamp(zero, 0.0, double(levels))), levels};
}

ValueRange batch_range(std::span<const float> x, const ActivationRanges& how, int64_t bits) {
  if (x.empty()) fail("quantize", "there is no activation to take a range of");
  if (!std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); }))
    fail("quantize", "an activation is not finite; the model's training has diverged");
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const ValueRange all{*low, *high};
  if (how.estimator == RangeEstimator::percentile) return percentile_range(x, how.percentile);
  return how.estimator == RangeEstimator::mse ? least_error_range(x, all, bits) : all;
}

void RunningRange::add(const ValueRange& batch) {
  constexpr double keep = 0.9;
  if (!range_) {
    range_ = batch;
    return;
  }
  range_->low = keep * range_->low + (1 - keep) * batch.low;
  range_->high = keep * range_->high + (1 - keep) * batch.high;
}

}  // namespace pursuit::nn
