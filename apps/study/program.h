#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/command/command_line.h"
#include "apps/study/export_command.h"
#include "apps/study/run_commands.h"
#include "apps/study/train_command.h"
#include "engine/base/program.h"

namespace pursuit::apps {

// The command line of an app, named Config::app. Its main is
//   int main(int argc, char** argv) { return run_main(argc, argv, run); }
// where run(args) makes a Program, adds its subcommands to `app` and returns run(args).
template <class Config> class Program {
 public:
  explicit Program(const std::string& about) : app(about) {
    app.name(Config::app);
    app.set_version_flag("--version", PURSUIT_VERSION);
    app.require_subcommand(1);
  }

  // `train`, which train(config, options, ranks) does.
  template <class Train>
  void add_train(const std::string& help, std::vector<std::string>& args, Train train) {
    add_train_command(app, help, args, config_, options_, code, train);
  }

  // Returns the process's exit code.
  int run(std::vector<std::string> args) {
    add_recipes_command(app);
    const int parsed = parse(app, std::move(args));
    return parsed != 0 ? parsed : code;
  }

  CLI::App app;
  int code = 0;  // what the subcommand returned

 private:
  Config config_;
  RunOptions options_;
};

}  // namespace pursuit::apps
