#pragma once
#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "engine/base/choice.h"
#include "engine/base/error.h"
#include "engine/base/range.h"

// Options that a plugin (an attention kind, an attack) declares once, by calling f(name, member, help, range)
// for each, and that command lines, recipes and files know by name.
namespace pursuit::nn {

using OptionValue = std::variant<bool, int64_t, double, std::string>;
using OptionValues = std::map<std::string, OptionValue>;

struct Option {
  std::string name, help;
  OptionValue value;               // the default
  Range range;                     // of a number
  std::vector<std::string> words;  // the values allowed for text
};

template <class T> Option described(const char* name, const T& member, const char* help, Range range = {}) {
  Option option{name, help, {}, range, {}};
  if constexpr (std::is_enum_v<T>) {
    option.value = std::string(choice_name(member));
    option.words = choice_names<T>();
    option.help += (option.help.empty() ? "" : ": ") + choice_help<T>();
  } else if constexpr (std::same_as<T, bool>) {
    option.value = member;
  } else if constexpr (std::integral<T>) {
    option.value = int64_t(member);
  } else {
    option.value = double(member);
  }
  return option;
}

// Throws Error of `where` unless the value is a number, and an integer if T is one.
template <class T> T number_of(const char* where, const std::string& name, const OptionValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return T(*whole);
  if constexpr (std::floating_point<T>)
    if (const auto* real = std::get_if<double>(&value)) return T(*real);
  fail(where, "option " + name + " needs a " + (std::floating_point<T> ? "" : "whole ") + "number");
}

template <class T>
void read_option(const char* where, const std::string& name, const OptionValue& value, T& member) {
  const auto need = [&](const auto* held, const char* what) -> const auto& {
    if (!held) fail(where, "option " + name + " needs " + what);
    return *held;
  };
  if constexpr (std::same_as<T, bool>)
    member = need(std::get_if<bool>(&value), "true or false");
  else if constexpr (std::is_enum_v<T>)
    member = choice_of<T>("option " + name, need(std::get_if<std::string>(&value), "a word"));
  else
    member = number_of<T>(where, name, value);
}

// Throws Error of `where` for a value of another type than the option's, out of range, or an unknown word.
void check_option(const char* where, const Option& option, const OptionValue& value);

}  // namespace pursuit::nn
