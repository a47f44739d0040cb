#include "apps/command/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <filesystem>

#include "apps/command/choice.h"
#include "apps/command/options.h"
#include "apps/command/recipes.h"
#include "apps/terminal/print.h"
#include "engine/program/program.h"

namespace pursuit::apps {

namespace {

// The error message, with a suggestion for an unknown word. If an option rejects its value, the value may
// have been meant as the next option, and the unknown word as that option's value.
std::string complaint(const CLI::App& app, const CLI::App& command, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  const bool of_value =
      dynamic_cast<const CLI::ConversionError*>(&error) || dynamic_cast<const CLI::ValidationError*>(&error);
  if (unknown.empty() || of_value) return error.what();
  const std::string word = unknown[0].substr(0, unknown[0].find('='));
  if (const size_t dashes = std::min(word.find_first_not_of('-'), word.size()); dashes > 0)
    return fmt::format("there is no option {}{}", word,
                       did_you_mean(word.substr(dashes), option_names(command), "--"));
  if (&command != &app) return fmt::format("'{}' was not expected", word);
  std::vector<std::string> commands;
  for (const CLI::App* c : app.get_subcommands({})) commands.push_back(c->get_name());
  return fmt::format("there is no subcommand '{}'{}", word, did_you_mean(word, commands));
}

}  // namespace

std::optional<std::string> peek(const std::vector<std::string>& args, const std::string& option) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == option && i + 1 < args.size()) return args[i + 1];
    if (args[i].starts_with(option + "=")) return args[i].substr(option.size() + 1);
  }
  return std::nullopt;
}

void add_recipes_command(CLI::App& app) {
  app.add_subcommand("recipes", "List the recipes")->callback([&app] {
    for (const std::string& name : recipe_names(app.get_name())) print("{}\n", name);
  });
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  return names;
}

int parse(CLI::App& app, std::vector<std::string> args) {
  std::reverse(args.begin(), args.end());  // CLI11 takes a vector from its end
  try {
    app.parse(args);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const CLI::App& command = chosen.empty() ? app : *chosen[0];
    const std::string text = complaint(app, command, error);
    note("error: {}{} `{}{} --help`\n", text, text.ends_with('?') ? " See" : "; see", app.get_name(),
         chosen.empty() ? "" : " " + command.get_name());
    return 2;
  }
  return 0;
}

int run_with_seed(int argc, char** argv, const std::string& about,
                  const std::function<void(uint64_t)>& body) {
  return run_main(argc, argv, [&](const std::vector<std::string>& args) {
    CLI::App app{about, std::filesystem::path(argv[0]).filename().string()};
    uint64_t seed = 0;
    add_number(app, "--seed", seed, "Seed of all random numbers", any_seed);
    app.callback([&] { body(seed); });
    return parse(app, args);
  });
}

}  // namespace pursuit::apps
