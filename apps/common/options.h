#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <type_traits>

namespace pursuit::apps {

// Adds an option for every field of a config that is one, see fields.h. Of an option given twice, by a recipe
// and beside it, the last counts, also of a list.
template <class Config>
void add_options(CLI::App& app, Config& config) {
  for_each_field(config, [&]<class T>(const char* name, T& member, const char* help) {
    if (!*help) return;
    const std::string flag = std::string("--") + name;
    if constexpr (requires { member.push_back({}); } && !std::is_same_v<T, std::string>)
      app.add_option(flag, member, help)->delimiter(',')->trigger_on_parse()->capture_default_str();
    else
      app.add_option(flag, member, help)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
          ->capture_default_str();
  });
}

}  // namespace pursuit::apps
