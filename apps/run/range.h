#pragma once
#include <concepts>
#include <type_traits>
#include <vector>

#include "engine/base/range.h"

namespace pursuit::apps {

using pursuit::above, pursuit::below, pursuit::Range;

constexpr Range any_count = {0, 1e9};  // 0: all, or none
constexpr Range any_batch = {0, 1 << 24};
constexpr Range any_threads = {0, 1024};
// 63 bits, because the parser turns numbers above 64 bits into the largest 64-bit number.
constexpr Range any_seed = {0, 9223372036854775807.0};

template <class T> constexpr bool is_number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;
template <class T> constexpr bool is_number_list = false;
template <class T> constexpr bool is_number_list<std::vector<T>> = is_number<T>;

}  // namespace pursuit::apps
