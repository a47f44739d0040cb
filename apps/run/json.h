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

// Instantiated once, in json.cpp; this saves a third of the compile time of a file that uses JSON under
// sanitizers.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

// JSON values are read with the functions below: nlohmann's conversions cast numbers to the target type,
// which is undefined behaviour for values out of its range.
namespace pursuit::apps {

// A value as JSON; an enum with choices becomes its name.
template <class T> nlohmann::ordered_json json_of(const T& member) {
  if constexpr (std::is_enum_v<T>)
    return choice_name(member);
  else
    return member;
}

// Sets `member` to the JSON value and returns "". If the value does not fit exactly, returns what is needed:
// "a finite number".
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

// The same for an object's member; the returned text is "'count' is 1e+308, need a whole number from ...".
template <class T> std::string read_member(const nlohmann::ordered_json& json, const char* name, T& member) {
  constexpr size_t shown = 40;  // characters of a wrong value
  const std::string need = read_value(json.at(name), member);
  if (need.empty()) return "";
  return fmt::format("'{}' is {:.{}}, need {}", name,
                     json.at(name).dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace),
                     shown, need);
}

// Returns a required member. Throws Error with that text, or json::exception if it is missing.
template <class T> T member_of(const nlohmann::ordered_json& json, const char* name) {
  T member{};
  if (const std::string problem = read_member(json, name, member); !problem.empty()) fail("json", problem);
  return member;
}

}  // namespace pursuit::apps
