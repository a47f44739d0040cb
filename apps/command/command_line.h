#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace pursuit::apps {

// The value of an option, read before the parser runs: recipes and resumed runs set the parser's defaults.
std::optional<std::string> peek(const std::vector<std::string>& args, const std::string& option);

// Adds `recipes`, which lists the recipes of the app called app.get_name().
void add_recipes_command(CLI::App& app);

// The names of a command's options, without the dashes.
std::vector<std::string> option_names(const CLI::App& command);

// Parses the arguments and runs the callbacks. Returns 0, or 2 after a usage error, which is printed on one
// line with a suggestion for a mistyped command or option.
int parse(CLI::App& app, std::vector<std::string> args);

// The main function of a program whose only option is --seed; `about` describes it in --help.
int run_with_seed(int argc, char** argv, const std::string& about,
                  const std::function<void(uint64_t seed)>& body);

}  // namespace pursuit::apps
