#pragma once
#include <map>
#include <string>
#include <vector>

#include "apps/command/option_value.h"
#include "nn/attacks/registry.h"

namespace pursuit::apps {

// Adds the options of these attacks, --ATTACK-OPTION. `given` holds those given, by attack, and must outlive
// the app.
inline void add_attack_options(CLI::App& app, const std::vector<std::string>& attacks,
                               std::map<std::string, nn::OptionValues>& given) {
  for (const std::string& name : attacks)
    for (const nn::Option& option : attacks::info_of(name).options)
      add_value(app, "--" + name + "-" + option.name, given[name], option)->group("Options of attacks");
}

}  // namespace pursuit::apps
