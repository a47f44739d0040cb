#include "apps/study/program.h"

#include <CLI/CLI.hpp>

#include "apps/command/options.h"
#include "apps/pictures/evaluation.h"
#include "apps/segment/interactive/commands.h"
#include "apps/segment/interactive/results.h"

namespace pursuit::segment::interactive {

namespace {

void add_eval(apps::Program<RunRecord>& program) {
  const auto [command, e] = program.add(
      "eval", "Let a robot user click; measure the clicks to an IoU, and the IoU after so many clicks",
      interactive::eval);
  apps::add_eval_options(command, e, "");
  apps::add_data_options(command, e.data, e.format, data::ObjectFormats::help());
  apps::add_choice<data::Split>(command, "--split", e.split, "Split to evaluate")
      ->default_str(choice_name(e.split));
  apps::add_number(command, "--limit", e.limit,
                   "Evaluate this many objects, evenly spaced (the first of drawn scenes; 0: all)",
                   apps::any_count);
  command.add_option_function<uint64_t>(
      "--robot-seed", [&o = e](uint64_t seed) { o.robot_seed = seed; },
      "Click at random, with this seed, on a pixel that is more than half as deep as the deepest one (left "
      "out: click on the deepest)");
  const auto add_flag = [&c = command](const char* name, std::optional<bool>& value, const char* help) {
    c.add_option(name, value, std::string(help) + " (default: as the run)")->check(apps::boolean);
  };
  add_flag("--propagate", e.propagate, "Clicks move the values of units alike");
  add_flag("--clamp", e.clamp, "The output at a clicked token is the click's");
  command.add_option("--key-iterations", e.key_iterations, "EM iterations of the keys (default: as the run)")
      ->check(apps::within({0, 1000}));
  command.add_option("--theta", e.theta, "Precision of the adapted keys' prior (default: as the run)")
      ->check(apps::within({0, 1e6}));
  command.add_option("--noise", e.noise, "Noise that is added to drawn scenes (default: as the run)")
      ->check(apps::within({0, 1}));
  command.add_flag("--skip-bad", e.skip_bad, "Skip damaged pictures and count them");
}

void add_serve(apps::Program<RunRecord>& program) {
  const auto [command, s] =
      program.add("serve", "Serve a web page on this machine on which to click", interactive::serve);
  apps::add_load_options(command, s.checkpoint, s.load);
  apps::add_number(command, "--port", s.port, "Port on 127.0.0.1 (0: a free one)", apps::Range{0, 65535});
}

}  // namespace

int run(std::vector<std::string> args) {
  apps::Program<RunRecord> program(
      "Segments the object that a user clicks on. Clicks spread to all that is alike, by probabilistic "
      "attention.",
      "Weights as safetensors, by the parameters' names");
  program.add_train("Train a network that looks at a picture once", args, train);
  add_eval(program);
  add_serve(program);
  program.add_study(run);
  return program.run(std::move(args));
}

}  // namespace pursuit::segment::interactive
