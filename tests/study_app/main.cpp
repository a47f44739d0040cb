#include <CLI/CLI.hpp>

#include "apps/command/options.h"
#include "apps/study/program.h"
#include "tests/study_app/spirals.h"

namespace {

using namespace pursuit;
using namespace pursuit::spirals;

int run(std::vector<std::string> args) {
  apps::Program<Config> program("Tells which of two spirals a point is of.");
  program.add_train("Train a small network", args, train);

  EvalOptions e;
  e.noise = {0};
  CLI::App* eval_command = program.app.add_subcommand("eval", "Accuracy, also of noisy points");
  apps::add_load_options(*eval_command, e.checkpoint, e.load);
  eval_command->add_option("--noise", e.noise, "Standard deviations of noise on the coordinates")
      ->check(apps::within(apps::Range{0, 10}))
      ->delimiter(',');
  eval_command->add_option("--seed", e.seed, "Seed of the points")->check(apps::within(apps::any_seed));
  eval_command->add_flag("--quiet", e.quiet, "No progress on stderr");
  eval_command->add_flag("--json", e.json, "Print JSON");
  eval_command->callback([&] { program.code = eval(e); });

  PredictOptions p;
  CLI::App* predict_command = program.app.add_subcommand("predict", "The spiral of points");
  apps::add_load_options(*predict_command, p.checkpoint, p.load);
  predict_command->add_option("points", p.points, "x y, of each point")->required();
  predict_command->callback([&] { program.code = predict(p); });

  apps::add_compare_command(program.app, compare_runs);
  apps::add_export_command<Config>(program.app, "Weights as safetensors");
  apps::add_report_command(program.app, write_report);
  return program.run(std::move(args));
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
