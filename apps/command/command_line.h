#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

// What the main functions of the apps share.
namespace pursuit::apps {

// The value of an option before the parser runs: a recipe and a resumed run set the defaults that it starts
// from.
std::optional<std::string> peek(const std::vector<std::string>& args, const std::string& option);

// `recipes` lists the recipes of the app, which is named like its folder.
void add_recipes_command(CLI::App& app);

// The names of a command's options, without the dashes.
std::vector<std::string> option_names(const CLI::App& command);

// Parses the arguments and runs the callbacks. Returns 2 after a usage error, of which it says on one line
// what is meant by a mistyped command or option, and 0 otherwise.
int parse(CLI::App& app, std::vector<std::string> args);

// main of a program whose one option is --seed; `about` is what its help says of it.
int run_with_seed(int argc, char** argv, const std::string& about,
                  const std::function<void(uint64_t seed)>& body);

}  // namespace pursuit::apps
