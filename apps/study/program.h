#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/command/command_line.h"
#include "apps/study/comparison_page.h"
#include "apps/study/export_command.h"
#include "apps/study/run_commands.h"
#include "apps/study/run_page.h"
#include "apps/study/study.h"
#include "apps/study/train_command.h"
#include "engine/program/program.h"

namespace pursuit::apps {

// The command line of an app, named Config::app. Record is the app's RunRecord. The app's main is
//   int main(int argc, char** argv) { return run_main(argc, argv, run); }
// where its function run(args) makes a Program, adds subcommands and returns program.run(args).
template <class Record> class Program {
 public:
  using Config = typename Record::Config;

  Program(const std::string& about, std::string about_export)
      : app(about), about_export_(std::move(about_export)) {
    app.name(Config::app);
    app.set_version_flag("--version", PURSUIT_VERSION);
    app.require_subcommand(1);
  }

  // Adds `train`, which calls train(config, options, ranks).
  template <class Train> void add_train(const std::string& help, std::vector<std::string>& args, Train train,
                                        const Config& defaults = {}) {
    config_ = defaults;
    add_train_command(app, help, args, config_, options_, code, train);
  }

  template <class Options> struct Subcommand {
    CLI::App& command;
    Options& options;
  };
  // Adds a subcommand, which calls run(options). The caller adds the command-line options to `command`.
  template <class Options>
  Subcommand<Options> add(const std::string& name, const std::string& help, int (*run)(const Options&)) {
    const auto options = std::make_shared<Options>();
    CLI::App* command = app.add_subcommand(name, help);
    command->callback([this, options, run] { code = run(*options); });
    return {*command, *options};
  }

  // Adds `study`; `run` is the app's function that makes this Program.
  void add_study(int (*run)(std::vector<std::string>)) { add_study_command<Record>(app, code, run); }

  // Adds the subcommands that all apps have and parses the arguments. Returns the process's exit code.
  int run(std::vector<std::string> args) {
    add_compare_command(app, compare_runs<Record>);
    add_report_command(app, write_report<Record>);
    add_export_command<Config>(app, about_export_);
    add_recipes_command(app);
    const int parsed = parse(app, std::move(args));
    return parsed != 0 ? parsed : code;
  }

  CLI::App app;
  int code = 0;  // exit code of the subcommand

 private:
  std::string about_export_;
  Config config_;
  RunOptions options_;
};

}  // namespace pursuit::apps
