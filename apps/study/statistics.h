#pragma once
#include <cstdint>
#include <vector>

namespace pursuit::apps {

// The t with P(|T| <= t) = confidence for Student's T with `degrees` >= 1 degrees of freedom, from the finite
// series of Abramowitz & Stegun 26.7.3 and 26.7.4. `confidence` in (0, 1).
double student_t(int64_t degrees, double confidence = 0.95);

// The mean of a[i] - b[i] with a confidence interval, mean - half_width to mean + half_width, under the
// assumption that the differences are normal.
struct PairedDifference {
  double mean = 0, half_width = 0;
  int64_t pairs = 0;

  double low() const { return mean - half_width; }
  double high() const { return mean + half_width; }
};
// `a` and `b`: equally many values, at least two.
PairedDifference paired_difference(const std::vector<double>& a, const std::vector<double>& b,
                                   double confidence = 0.95);

double mean_of(const std::vector<double>& values);
double deviation_of(const std::vector<double>& values);  // of a sample; 0 for a single value

}  // namespace pursuit::apps
