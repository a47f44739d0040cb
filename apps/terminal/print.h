#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>

#include "engine/base/line_prefix.h"
#include "engine/base/text.h"

// What the apps print. Text may come from a file (names of classes and files, words, configs): a control
// character or a line break in it never reaches the terminal.
namespace pursuit::apps {

// Text that has line breaks of its own, as a table or a generated story.
struct Lines {
  std::string text;
};

template <class T> auto shown(const T& value) {
  if constexpr (std::is_same_v<T, Lines>)
    return printable(value.text, true);
  else if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return printable(value);
  else
    return value;
}

template <class... T> using Format = fmt::format_string<decltype(shown(std::declval<const T&>()))...>;

// To stdout. run_main sees to what could not be written.
template <class... T> void print(Format<T...> format, const T&... values) {
  fmt::print(format, shown(values)...);
}

// To stderr. What cannot be written is let go: no work ends because nobody looks at it.
template <class... T> void note(Format<T...> format, const T&... values) {
  const std::string line = line_prefix + fmt::format(format, shown(values)...);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace pursuit::apps
