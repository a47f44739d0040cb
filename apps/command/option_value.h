#pragma once
#include <fmt/format.h>

#include <string>
#include <type_traits>
#include <variant>

#include "apps/command/options.h"
#include "nn/options.h"

namespace pursuit::apps {

// Adds an option that a plugin declared (nn/options.h). `given` holds it only if it is given, so that a
// preset may be its default; `given` must outlive the app.
inline CLI::Option* add_value(CLI::App& app, const std::string& flag, nn::OptionValues& given,
                              const nn::Option& declared) {
  return std::visit(
      [&]<class T>(const T& value) {
        const auto keep = [&given, name = declared.name](const T& v) { given[name] = v; };
        CLI::Option* option = app.add_option_function<T>(flag, keep, declared.help);
        option->default_str(fmt::format("{}", value));
        if constexpr (std::is_same_v<T, bool>)
          option->check(boolean);
        else if constexpr (std::is_same_v<T, std::string>)
          option->check(CLI::IsMember(declared.words));
        else
          option->check(within(declared.range));
        return option;
      },
      declared.value);
}

}  // namespace pursuit::apps
