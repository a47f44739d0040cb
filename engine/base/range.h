#pragma once
#include <cstdio>
#include <string>

namespace pursuit {

// The valid values of a numeric option. NaN is never valid; the default range is empty.
struct Range {
  double low = 1, high = 0;
  bool without_low = false, without_high = false;

  constexpr bool holds(double v) const {
    return (without_low ? v > low : v >= low) && (without_high ? v < high : v <= high);
  }
  // "1 to 1024"; "above 0, up to 1"; "0 up to, not including, 1"
  std::string text() const {
    const char* format = without_low    ? "above %.16g, up to %.16g"
                         : without_high ? "%.16g up to, not including, %.16g"
                                        : "%.16g to %.16g";
    char text[80];
    std::snprintf(text, sizeof text, format, low, high);
    return text;
  }
};

constexpr Range above(double low, double high) { return {low, high, true, false}; }
constexpr Range below(double low, double high) { return {low, high, false, true}; }

}  // namespace pursuit
