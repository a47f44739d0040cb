#include <CLI/CLI.hpp>

#include "apps/command/options.h"
#include "apps/route/route.h"
#include "apps/study/program.h"

namespace {

using namespace pursuit;
using namespace pursuit::route;

int run(std::vector<std::string> args) {
  apps::Program<RunRecord> program(
      "Solves travelling salesman and vehicle routing problems by learned construction.",
      "Weights as safetensors");
  program.add_train("Train LEHD on labels, or POMO by reinforcement", args, route::train);

  const auto [eval_command, e] = program.add(
      "eval", "Measure the gaps of uniform instances, or of the instances of a file", route::eval);
  apps::add_eval_options(eval_command, e, "Instances per batch (0: the run's)", {.device = false});
  eval_command.add_option("--data", e.data,
                          "File of published instances, or a .tsp or .vrp (left out: uniform ones)");
  apps::add_number(eval_command, "--limit", e.limit,
                   "Number of instances (0: all of --data, or the run's number)", apps::any_count);
  apps::add_number(eval_command, "--nodes", e.nodes, "Nodes of uniform instances (0: the run's)",
                   apps::Range{0, 1000});
  apps::add_number(eval_command, "--max-nodes", e.max_nodes,
                   "Leave out instances of --data with more nodes (cvrp: customers; 0: none)",
                   apps::any_count);
  apps::add_number(eval_command, "--rrc", e.decoding.rrc,
                   "lehd: also measure after so many iterations of random re-construct", apps::Range{0, 1e6});
  apps::add_number(eval_command, "--seed", e.decoding.seed, "Seed of the iterations", apps::any_seed);
  eval_command.add_flag("--augment", e.decoding.augment, "pomo: also measure the best of eight symmetries");

  const auto [solve_command, s] =
      program.add("solve", "Solve a .tsp of TSPLIB or a .vrp of CVRPLIB", route::solve);
  apps::add_load_options(solve_command, s.checkpoint, s.load, {.device = false});
  solve_command.add_option("FILE", s.file, "The instance, with EDGE_WEIGHT_TYPE EUC_2D, CEIL_2D, ATT or GEO")
      ->required();
  apps::add_number(solve_command, "--rrc", s.rrc, "lehd: iterations of random re-construct",
                   apps::Range{0, 1e6});
  apps::add_number(solve_command, "--seed", s.seed, "Seed of the iterations", apps::any_seed);
  solve_command.add_flag_function(
      "--augment,!--no-augment", [&s = s](int64_t times) { s.augment = times > 0; },
      "pomo: take the best of eight symmetries (default)");
  solve_command.add_option("--svg", s.svg, "Write the solution as a drawing");
  solve_command.add_option("--solution", s.solution,
                           "Write the solution as TSPLIB's tour or CVRPLIB's routes");
  program.add_study(run);
  return program.run(std::move(args));
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
