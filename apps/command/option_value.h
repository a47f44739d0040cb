#pragma once
#include <string>
#include <type_traits>
#include <variant>

#include "apps/command/options.h"
#include "nn/options.h"

namespace pursuit::apps {

// Adds an option that a plugin declared (nn/options.h). `value` holds its default and must outlive the app.
inline CLI::Option* add_value(CLI::App& app, const std::string& flag, nn::OptionValue& value,
                              const nn::Option& declared) {
  return std::visit(
      [&]<class T>(T& held) {
        CLI::Option* option = app.add_option(flag, held, declared.help)->capture_default_str();
        if constexpr (std::is_same_v<T, bool>)
          option->check(boolean);
        else if constexpr (std::is_same_v<T, std::string>)
          option->check(CLI::IsMember(declared.words));
        else
          option->check(within(declared.range));
        return option;
      },
      value);
}

}  // namespace pursuit::apps
