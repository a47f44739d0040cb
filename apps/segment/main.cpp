#include <CLI/CLI.hpp>

#include "apps/command/options.h"
#include "apps/segment/commands.h"
#include "apps/study/program.h"

namespace {

using namespace pursuit;
using namespace pursuit::segment;

void add_view_options(CLI::App& command, ViewOptions& o) {
  command
      .add_option("--stride", o.stride,
                  "Pixels between windows (0: windows side by side; default: the run's)")
      ->check(apps::within(apps::Range{0, 4096}));
  command
      .add_option("--short-side", o.short_side,
                  "Scale pictures to this shorter side (0: as they are; default: the run's)")
      ->check(apps::within(apps::Range{0, 16384}));
  command
      .add_option("--long-side", o.long_side,
                  "With --short-side: but no longer than this (0: no limit; default: the run's)")
      ->check(apps::within(apps::Range{0, 16384}));
  command
      .add_option("--scales", o.scales,
                  "Average the probabilities over these scales of the pictures (default: the run's)")
      ->check(apps::within(apps::Range{0.1, 4}))
      ->delimiter(',');
  command.add_flag_function(
      "--flip,!--no-flip", [&o](int64_t times) { o.flip = times > 0; },
      "And over the mirrored pictures (default: as the run)");
}

void add_eval(CLI::App& app, EvalOptions& e, int& code) {
  CLI::App* command =
      app.add_subcommand("eval", "Pixel accuracy, mean accuracy and mIoU, clean and under corruptions");
  apps::add_picture_eval_options(*command, e);
  add_view_options(*command, e.views);
  command->add_option("--split", e.split, "train, val or test; of the last two, the one there is")
      ->capture_default_str();
  command->add_option("--save-predictions", e.save_predictions,
                      "Write the predicted class numbers to this folder, a PNG for each picture");
  command->callback([&] { code = eval(e); });
}

void add_predict(CLI::App& app, PredictOptions& p, int& code) {
  CLI::App* command = app.add_subcommand("predict", "Colour masks, overlays and legends of single pictures");
  apps::add_picture_predict_options(*command, p);
  add_view_options(*command, p.views);
  command->add_option("--batch-size", p.batch_size, "Windows per batch (0: the run's)")
      ->check(apps::within(apps::any_batch));
  command->add_option("--opacity", p.opacity, "Weight of the mask in the overlay")
      ->check(apps::within(apps::Range{0, 1}))
      ->capture_default_str();
  command->callback([&] { code = predict(p); });
}

int run(std::vector<std::string> args) {
  apps::Program<Config> program("Trains and studies semantic segmenters whose attention can be made robust.");
  EvalOptions eval_options;
  PredictOptions predict_options;
  program.add_train("Train a segmenter", args, train);
  add_eval(program.app, eval_options, program.code);
  add_predict(program.app, predict_options, program.code);
  apps::add_compare_command(program.app, compare_runs);
  apps::add_export_command<Config>(program.app, "Weights as safetensors, by the parameters' names");
  apps::add_report_command(program.app, write_report);
  return program.run(std::move(args));
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
