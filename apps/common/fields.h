#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "engine/error.h"

// An app describes once what a run of it is made of: beside its Config stands
//   template <class C, class F> void for_each_field(C& config, const F& f)
// which calls f("learning-rate", config.learning_rate, "Help") for every member, with an empty help for those
// that are saved with a run but are no option. Options, config.json and recipes all follow from that list.
namespace pursuit::apps {

template <class Config>
nlohmann::ordered_json fields_to_json(const Config& config) {
  nlohmann::ordered_json json;
  for_each_field(config, [&](const char* name, const auto& member, const char*) { json[name] = member; });
  return json;
}

// Those of its fields that are options: what else is saved follows from the data.
template <class Config>
nlohmann::ordered_json options_to_json(const Config& config) {
  nlohmann::ordered_json json;
  for_each_field(config, [&](const char* name, const auto& member, const char* help) {
    if (*help) json[name] = member;
  });
  return json;
}

// An option's value as it is written on a command line.
inline std::string option_text(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const auto& v : value) list += (list.empty() ? "" : ",") + option_text(v);
  return list;
}

// What the JSON object leaves out keeps its default. Throws Error that names the file and the field.
template <class Config>
Config fields_from_json(const nlohmann::ordered_json& json, const std::string& file) {
  if (!json.is_object()) fail("config", file + ": the config is no JSON object; it is damaged");
  Config config;
  for_each_field(config, [&](const char* name, auto& member, const char*) {
    if (!json.contains(name)) return;
    try {
      json.at(name).get_to(member);
    } catch (const std::exception&) {
      fail("config", file + ": '" + name + "' has a value of the wrong type");
    }
  });
  return config;
}

}  // namespace pursuit::apps
