#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "apps/command/choice.h"
#include "apps/run/fields.h"
#include "apps/run/range.h"
#include "engine/base/choice.h"

namespace pursuit::apps {

// Rejects numbers out of the range. Text that is no number is left to the option's own check.
inline CLI::Validator within(Range range) {
  return CLI::Validator(
      [range](const std::string& text) {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value) || range.holds(value)) return std::string();
        return fmt::format("{} is out of range, need {}", text, range.text());
      },
      "");
}

// Rejects anything but true and false, for example the next option's name.
inline const CLI::Validator boolean(
    [](std::string& text) {
      bool value = false;
      if (CLI::detail::lexical_cast(text, value)) return std::string();
      return fmt::format("needs true or false, not '{}'", text);
    },
    "");

// Adds an option for an enum with choices (engine/base/choice.h). Target is the enum or an optional of it.
template <class E, class Target>
CLI::Option* add_choice(CLI::App& app, const std::string& flag, Target& target, const std::string& help) {
  const auto set = [&target, flag](const std::string& word) {
    const std::optional<E> found = find_choice<E>(word);
    if (!found)
      throw CLI::ValidationError(flag, fmt::format("got '{}', need one of {}", word, choice_list<E>()));
    target = *found;
  };
  return app.add_option_function<std::string>(flag, set, help + ": " + choice_help<E>());
}

// Adds an option for a comma-separated list of `known` names, or all; chosen() (apps/command/choice.h) gives
// what it stands for.
inline CLI::Option* add_names(CLI::App& app, const std::string& flag, std::vector<std::string>& names,
                              const std::vector<std::string>& known, const std::string& help) {
  const auto check = [known](const std::string& word) { return unknown_name(word, known); };
  return app.add_option(flag, names, help)->delimiter(',')->check(CLI::Validator(check, ""));
}

// Refuses the options that would have no effect, since none of `with` is given. Once a command.
struct OnlyWith {
  std::vector<std::string> options, with;
};
inline void refuse_without_effect(CLI::App& command, const std::vector<OnlyWith>& rules) {
  command.parse_complete_callback([&command, rules] {
    const auto given = [&](const std::string& option) { return command.count(option) > 0; };
    for (const OnlyWith& rule : rules)
      for (const std::string& option : rule.options)
        if (given(option) && std::none_of(rule.with.begin(), rule.with.end(), given))
          throw CLI::ValidationError(option,
                                     fmt::format("has no effect without {}", fmt::join(rule.with, " or ")));
  });
}

// Adds an option for a number in the range, or for a comma-separated list. --help shows its default.
template <class T> CLI::Option* add_number(CLI::App& app, const std::string& flag, T& value,
                                           const std::string& help, Range range) {
  CLI::Option* option = app.add_option(flag, value, help)->check(within(range));
  if constexpr (is_number_list<T>) option->delimiter(',');
  if constexpr (is_number<T> || is_number_list<T>)
    if (value != T{} || is_number<T>) option->capture_default_str();
  return option;
}

// Adds an option for every field of a config that the app offers (apps/run/fields.h). If one is given twice (in
// a recipe and on the command line), the last one wins; lists are not joined.
template <class Config> void add_options(CLI::App& app, Config& config) {
  for_each_field(config, [&]<class T>(const char* name, T& member, const char* help, Range range = {}) {
    if (!*help || !offers<Config>(name)) return;
    const std::string flag = std::string("--") + name;
    CLI::Option* option = nullptr;
    if constexpr (std::is_enum_v<T>)
      option = add_choice<T>(app, flag, member, help)->default_str(choice_name(member));
    else
      option = app.add_option(flag, member, help)->capture_default_str();
    if constexpr (requires { member.push_back({}); } && !std::is_same_v<T, std::string>)
      option->delimiter(',')->trigger_on_parse();
    else
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if constexpr (is_number<T> || is_number_list<T>) option->check(within(range));
    if constexpr (std::is_same_v<T, bool>) option->check(boolean);
  });
  if constexpr (requires { config.add_old(app); }) config.add_old(app);
}

}  // namespace pursuit::apps
