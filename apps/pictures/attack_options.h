#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "apps/command/option_value.h"
#include "engine/base/error.h"
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

// Throws Error that names an option if it is of an attack that is not `used`.
inline void refuse_unused(const std::map<std::string, nn::OptionValues>& given,
                          const std::set<std::string>& used) {
  for (const auto& [attack, options] : given)
    if (!options.empty() && !used.contains(attack))
      fail("eval", "--" + attack + "-" + options.begin()->first +
                       " has no effect without that attack; give --attack " + attack);
}

}  // namespace pursuit::apps
