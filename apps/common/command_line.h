#pragma once
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

// Puts the settings of the recipe that `train` was given before its other options, which override them.
void insert_recipe(const std::string& app, std::vector<std::string>& args);

// `recipes` lists the recipes of the app, which is named like its folder.
void add_recipes_command(CLI::App& app);

// Parses the arguments and runs the callbacks. Returns 2 after a usage error and 0 otherwise.
int parse(CLI::App& app, std::vector<std::string> args);

// Runs `body` with the program's arguments; an exception becomes a line on stderr and exit code 1.
int run_main(int argc, char** argv, const std::function<int(std::vector<std::string>)>& body);

}  // namespace pursuit::apps
