#include "apps/page/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pursuit::apps {
namespace {

// The smallest of 1, 2, 5 times a power of ten that is at least `step`.
double nice_step(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

// A label with as many digits as it takes to tell ticks `step` apart.
std::string label(double value, double step, double largest) {
  if (largest >= 1e15 || largest < 1e-4) return fmt::format("{:.3g}", value);
  const auto [scale, unit] = largest >= 1e9   ? std::pair(1e9, "G")
                             : largest >= 1e6 ? std::pair(1e6, "M")
                             : largest >= 1e4 ? std::pair(1e3, "k")
                                              : std::pair(1.0, "");
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step / scale) + 1e-9)));
  if (std::fabs(value) < step * 1e-6) return "0";
  return fmt::format("{:.{}f}{}", value / scale, std::min(decimals, 8), unit);
}

}  // namespace

Axis::Axis(double low, double high, bool log, double margin)
    : low_(log ? std::log10(low) : low), high_(log ? std::log10(high) : high), log_(log) {
  if (high_ - low_ <= 1e-9 * std::max(std::fabs(low_), std::fabs(high_))) {
    const double extent = log || low_ == 0 ? 0.5 : std::fabs(low_) * 0.1;
    low_ -= extent;
    high_ += extent;
  }
  const double room = (high_ - low_) * margin;
  low_ -= room;
  high_ += room;
}

double Axis::position(double value) const {
  return ((log_ ? std::log10(value) : value) - low_) / (high_ - low_);
}

std::vector<Tick> Axis::ticks(int count) const {
  std::vector<Tick> ticks;
  if (log_ && high_ - low_ >= 0.7) {
    const bool wide = high_ - low_ >= 2;
    const int stride = std::max(1, static_cast<int>(std::ceil((high_ - low_) / (count + 2))));
    for (int power = static_cast<int>(std::floor(low_)); power <= high_; ++power) {
      if (wide && power % stride != 0) continue;
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double value = factor * std::pow(10, power), at = std::log10(value);
        if ((wide && factor != 1) || at < low_ - 1e-9 || at > high_ + 1e-9) continue;
        ticks.push_back({value, label(value, value, value)});
      }
    }
    return ticks;
  }
  const double low = log_ ? std::pow(10, low_) : low_, high = log_ ? std::pow(10, high_) : high_;
  const double step = nice_step((high - low) / count), slack = (high - low) * 1e-9;
  const double largest = std::max(std::fabs(low), std::fabs(high));
  for (double i = std::ceil((low - slack) / step); i * step <= high + slack; ++i)
    ticks.push_back({i * step, label(i * step, step, largest)});
  return ticks;
}

}  // namespace pursuit::apps
