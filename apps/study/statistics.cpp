#include "apps/study/statistics.h"

#include <cmath>
#include <numbers>

#include "engine/base/error.h"

namespace pursuit::apps {

namespace {

// P(|T| <= sqrt(degrees) tan(angle))
double within(int64_t degrees, double angle) {
  const double cosine = std::cos(angle);
  const bool odd = degrees % 2 == 1;
  double term = odd ? cosine : 1, sum = degrees == 1 ? 0 : term;
  for (int64_t k = odd ? 3 : 2; k < degrees; k += 2) {
    term *= cosine * cosine * double(k - 1) / double(k);
    sum += term;
  }
  sum *= std::sin(angle);
  return odd ? 2 / std::numbers::pi * (angle + sum) : sum;
}

}  // namespace

double student_t(int64_t degrees, double confidence) {
  check(degrees >= 1 && confidence > 0 && confidence < 1, "statistics",
        "need at least one degree of freedom and a confidence between 0 and 1");
  double low = 0, high = std::numbers::pi / 2;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = (low + high) / 2;
    (within(degrees, middle) < confidence ? low : high) = middle;
  }
  return std::sqrt(double(degrees)) * std::tan(low);
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / double(values.size());
}

double deviation_of(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double m = mean_of(values);
  double squares = 0;
  for (const double v : values) squares += (v - m) * (v - m);
  return std::sqrt(squares / double(values.size() - 1));
}

PairedDifference paired_difference(const std::vector<double>& a, const std::vector<double>& b,
                                   double confidence) {
  check(a.size() == b.size() && a.size() >= 2, "statistics", "need two or more pairs of values");
  std::vector<double> differences;
  for (size_t i = 0; i < a.size(); ++i) differences.push_back(a[i] - b[i]);
  const auto pairs = int64_t(a.size());
  return {mean_of(differences),
          student_t(pairs - 1, confidence) * deviation_of(differences) / std::sqrt(double(pairs)), pairs};
}

}  // namespace pursuit::apps
