#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>

#include "engine/base/line_prefix.h"
#include "engine/base/text.h"

// Output of the apps. Text may come from files (names of classes and files, words, configs), so control
// characters and line breaks in it are escaped.
namespace pursuit::apps {

// Text whose line breaks are kept, such as a table or a generated story.
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

// Prints to stdout. run_main reports write errors.
template <class... T> void print(Format<T...> format, const T&... values) {
  fmt::print(format, shown(values)...);
}

// Prints to stderr. Write errors are ignored, so that a closed stderr does not stop any work.
template <class... T> void note(Format<T...> format, const T&... values) {
  const std::string line = line_prefix + fmt::format(format, shown(values)...);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace pursuit::apps
