#pragma once
#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "apps/run/json.h"
#include "apps/run/range.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

// An app lists the fields of its Config once, in
//   template <class C, class F> void for_each_field(C& config, const F& f)
// which calls f("learning-rate", config.learning_rate, "Help", range) for every member. An empty help means
// that the field is saved with a run but is not an option. Only numbers and lists of numbers have a range.
// The values of an enum are its choices (engine/base/choice.h). Options, config.json and recipes are derived
// from the list.
namespace pursuit::apps {

// False if Config::fixed, a list of names, has the option: the app saves it as all apps do, but accepts only
// its default and does not offer it.
template <class Config> constexpr bool offers(std::string_view option) {
  if constexpr (requires { Config::fixed; })
    for (const std::string_view name : Config::fixed)
      if (name == option) return false;
  return true;
}

template <class Config> nlohmann::ordered_json fields_to_json(const Config& config) {
  nlohmann::ordered_json json;
  for_each_field(config, [&](const char* name, const auto& member, const char*, Range = {}) {
    json[name] = json_of(member);
  });
  return json;
}

// The fields that are options; the others follow from the data.
template <class Config> nlohmann::ordered_json options_to_json(const Config& config) {
  nlohmann::ordered_json json;
  for_each_field(config, [&](const char* name, const auto& member, const char* help, Range = {}) {
    if (*help) json[name] = json_of(member);
  });
  return json;
}

// Throws Error that starts with `app` and names the field if a number is out of its range or text is not
// UTF-8, which config.json needs.
template <class Config> void check_fields(const char* app, const Config& config) {
  for_each_field(config, [&]<class T>(const char* name, const T& member, const char* help, Range range = {}) {
    const std::string shown = *help ? "--" + std::string(name) : fmt::format("'{}'", name);
    const auto check = [&](auto value) {
      if (!range.holds(double(value)))
        fail(app, fmt::format("{} is {}, need {}", shown, value, range.text()));
    };
    if constexpr (is_number<T>)
      check(member);
    else if constexpr (is_number_list<T>)
      for (const auto value : member) check(value);
    else if constexpr (std::same_as<T, std::string>)
      if (!is_utf8(member))
        fail(app, fmt::format("{} is '{}', which is not UTF-8; rename it", shown, member));
  });
}

// An option's value as on a command line.
inline std::string option_text(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const auto& v : value) list += (list.empty() ? "" : ",") + option_text(v);
  return list;
}

// Missing fields keep their defaults. Throws Error that names the file and the field.
template <class Config> Config fields_from_json(const nlohmann::ordered_json& json, const std::string& file) {
  if (!json.is_object()) fail("config", file + ": the config is no JSON object; it is damaged");
  Config config;
  for_each_field(config, [&](const char* name, auto& member, const char*, Range = {}) {
    if (!json.contains(name)) return;
    if (const std::string problem = read_member(json, name, member); !problem.empty())
      fail("config", file + ": " + problem);
  });
  if constexpr (requires { config.read_old(json); }) config.read_old(json);
  return config;
}

}  // namespace pursuit::apps
