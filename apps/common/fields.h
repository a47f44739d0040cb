#pragma once
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/error.h"

// An app describes once what a run of it is made of: beside its Config stands
//   template <class C, class F> void for_each_field(C& config, const F& f)
// which calls f("learning-rate", config.learning_rate, "Help") for every member, with an empty help for those
// that are saved with a run but are no option. Options, config.json and recipes all follow from that list.
namespace pursuit::apps {

template <class Config>
void add_options(CLI::App& app, Config& config) {
  for_each_field(config, [&]<class T>(const char* name, T& member, const char* help) {
    if (!*help) return;
    const std::string flag = std::string("--") + name;
    if constexpr (requires { member.push_back({}); } && !std::is_same_v<T, std::string>)
      app.add_option(flag, member, help)->delimiter(',')->capture_default_str();
    else
      app.add_option(flag, member, help)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
          ->capture_default_str();
  });
}

template <class Config>
nlohmann::ordered_json fields_to_json(const Config& config) {
  nlohmann::ordered_json json;
  for_each_field(config, [&](const char* name, const auto& member, const char*) { json[name] = member; });
  return json;
}

// What the JSON leaves out keeps its default. Throws Error that names the file and the field.
template <class Config>
Config fields_from_json(const nlohmann::ordered_json& json, const std::string& file) {
  Config config;
  for_each_field(config, [&](const char* name, auto& member, const char*) {
    if (!json.is_object() || !json.contains(name)) return;
    try {
      json.at(name).get_to(member);
    } catch (const std::exception&) {
      fail("config", file + ": '" + name + "' has a value of the wrong type");
    }
  });
  return config;
}

}  // namespace pursuit::apps
