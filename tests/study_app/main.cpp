#include <CLI/CLI.hpp>

#include "apps/command/apply.h"
#include "apps/command/options.h"
#include "apps/study/program.h"
#include "tests/study_app/spirals.h"

namespace {

using namespace pursuit;
using namespace pursuit::spirals;

int run(std::vector<std::string> args) {
  apps::Program<RunRecord> program("Tells which of two spirals a point is of.", "Weights as safetensors");
  program.add_train("Train a small network", args, train);

  const auto [eval_command, e] = program.add("eval", "Accuracy, also of noisy points", spirals::eval);
  apps::add_load_options(eval_command, e.checkpoint, e.load);
  apps::add_number(eval_command, "--noise", e.noise, "Standard deviations of noise on the coordinates",
                   apps::Range{0, 10});
  apps::add_number(eval_command, "--seed", e.seed, "Seed of the points", apps::any_seed);
  eval_command.add_flag("--quiet", e.quiet, "No progress on stderr");
  eval_command.add_flag("--json", e.json, "Print JSON");

  const auto [predict_command, p] = program.add("predict", "The spiral of points", predict);
  apps::add_load_options(predict_command, p.checkpoint, p.load);
  predict_command.add_option("points", p.points, "x y, of each point")->required();
  program.add_study(run);
  return program.run(std::move(args));
}

}  // namespace

template void pursuit::apps::apply(const Recipe&, pursuit::spirals::Config&);

int main(int argc, char** argv) { return run_main(argc, argv, run); }
