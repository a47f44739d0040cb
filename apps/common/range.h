#pragma once
#include <fmt/format.h>

#include <concepts>
#include <string>
#include <type_traits>
#include <vector>

namespace pursuit::apps {

// The numbers that an option, or a field of a config, may be; NaN is none of them. One that was not given
// holds none at all.
struct Range {
  double low = 1, high = 0;
  bool without_low = false, without_high = false;

  constexpr bool holds(double v) const {
    return (without_low ? v > low : v >= low) && (without_high ? v < high : v <= high);
  }
  // "1 to 1024"; "above 0, up to 1"; "0 up to, not including, 1"
  std::string text() const {
    if (without_low) return fmt::format("above {:.16g}, up to {:.16g}", low, high);
    if (without_high) return fmt::format("{:.16g} up to, not including, {:.16g}", low, high);
    return fmt::format("{:.16g} to {:.16g}", low, high);
  }
};

constexpr Range above(double low, double high) { return {low, high, true, false}; }
constexpr Range below(double low, double high) { return {low, high, false, true}; }

constexpr Range any_count = {0, 1e9};  // 0: all, or none
constexpr Range any_batch = {0, 1 << 24};
constexpr Range any_threads = {0, 1024};
// Of 63 bits: the parser gives the largest number of 64 for all that is larger.
constexpr Range any_seed = {0, 9223372036854775807.0};

template <class T>
constexpr bool is_number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;
template <class T>
constexpr bool is_number_list = false;
template <class T>
constexpr bool is_number_list<std::vector<T>> = is_number<T>;

}  // namespace pursuit::apps
