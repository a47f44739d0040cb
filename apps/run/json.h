#pragma once
#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "engine/base/choice.h"
#include "engine/base/error.h"

// Its code is compiled once, in json.cpp, and not in every file that uses it: that takes a third off the
// compiling of such a file under sanitizers.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

// What JSON files say is read with the functions below: nlohmann's own conversions cut numbers to the type
// asked for, which is undefined where they do not fit.
namespace pursuit::apps {

// As files have it: an enum with choices is its name.
template <class T> nlohmann::ordered_json json_of(const T& member) {
  if constexpr (std::is_enum_v<T>)
    return choice_name(member);
  else
    return member;
}

// Sets `member` to exactly what the JSON value says. Otherwise returns what the value would have to be;
// empty: done.
template <class T> std::string read_value(const nlohmann::ordered_json& value, T& member) {
  if constexpr (std::same_as<T, bool>) {
    if (!value.is_boolean()) return "true or false";
  } else if constexpr (std::integral<T>) {
    const bool fits = value.is_number_unsigned()
                          ? std::in_range<T>(value.get<uint64_t>())
                          : value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
    if (!fits)
      return fmt::format("a whole number from {} to {}", std::numeric_limits<T>::min(),
                         std::numeric_limits<T>::max());
  } else if constexpr (std::floating_point<T>) {
    if (!value.is_number() || !std::isfinite(value.get<T>())) return "a finite number";
  } else if constexpr (std::same_as<T, std::string>) {
    if (!value.is_string()) return "text";
  } else if constexpr (std::is_enum_v<T>) {
    const auto found = value.is_string() ? find_choice<T>(value.get_ref<const std::string&>()) : std::nullopt;
    if (!found) return "one of " + choice_list<T>();
    member = *found;
    return "";
  } else {
    if (!value.is_array()) return "a list";
    if constexpr (requires { member.resize(value.size()); })
      member.resize(value.size());
    else if (value.size() != member.size())
      return fmt::format("a list of {}", member.size());
    for (size_t i = 0; i < member.size(); ++i)
      if (const std::string need = read_value(value[i], member[i]); !need.empty())
        return "a list, each " + need;
    return "";
  }
  value.get_to(member);
  return "";
}

// The same of an object's member. Otherwise returns "'count' is 1e+308, need a whole number from ...".
template <class T> std::string read_member(const nlohmann::ordered_json& json, const char* name, T& member) {
  constexpr size_t shown = 40;  // characters of a wrong value
  const std::string need = read_value(json.at(name), member);
  if (need.empty()) return "";
  return fmt::format("'{}' is {:.{}}, need {}", name,
                     json.at(name).dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace),
                     shown, need);
}

// The same of a member that has to be there; throws Error with that text, or a json::exception.
template <class T> T member_of(const nlohmann::ordered_json& json, const char* name) {
  T member{};
  if (const std::string problem = read_member(json, name, member); !problem.empty()) fail("json", problem);
  return member;
}

}  // namespace pursuit::apps
