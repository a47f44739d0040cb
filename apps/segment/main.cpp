#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/common/command_line.h"
#include "apps/common/options.h"
#include "apps/segment/commands.h"
#include "apps/segment/run.h"
#include "apps/training/export_command.h"
#include "apps/training/run_commands.h"
#include "apps/training/train_command.h"
#include "engine/core/program.h"

namespace {

using namespace pursuit;
using namespace pursuit::segment;

void add_use_options(CLI::App& command, UseOptions& o) {
  apps::add_load_options(command, o.checkpoint, o.load);
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
  command.add_option("--batch-size", o.batch_size, "Windows per batch (default: the run's)")
      ->check(apps::within(apps::any_batch));
}

int run(std::vector<std::string> args) {
  CLI::App app{"Trains and studies semantic segmenters whose attention can be made robust."};
  app.name("segment");
  app.set_version_flag("--version", PURSUIT_VERSION);
  app.require_subcommand(1);
  int code = 0;

  Config config;
  apps::RunOptions options;
  apps::add_train_command(app, "Train a segmenter", args, config, options, code, train);

  EvalOptions e;
  CLI::App* eval_command =
      app.add_subcommand("eval", "Pixel accuracy, mean accuracy and mIoU, clean and under corruptions");
  add_use_options(*eval_command, e);
  eval_command->add_option("--data", e.data, "Folder with the data set (default: the run's)");
  eval_command->add_option("--format", e.format, "Layout of the data (default: the run's, or auto)");
  eval_command->add_option("--split", e.split, "train, val or test; of the last two, the one there is")
      ->capture_default_str();
  eval_command->add_option("--first", e.first, "Use the first this many pictures (0: all)")
      ->check(apps::within(apps::any_count));
  eval_command
      ->add_option("--limit", e.limit,
                   "Of these use this many, evenly spaced (of drawn scenes the first; 0: all)")
      ->check(apps::within(apps::any_count));
  eval_command->add_option("--corruptions", e.corruptions, "all, or a list of names")->delimiter(',');
  eval_command->add_option("--severities", e.severities, "Severities of the corruptions")
      ->check(apps::within(apps::Range{1, 5}))
      ->delimiter(',')
      ->capture_default_str();
  eval_command->add_option("--frost", e.frost, "Folder with frost overlays (default: drawn ones)");
  eval_command->add_option("--seed", e.seed, "Seed of the corruptions")
      ->check(apps::within(apps::any_seed))
      ->capture_default_str();
  eval_command->add_option("--save-predictions", e.save_predictions,
                           "Write the predicted class numbers to this folder, a PNG for each picture");
  eval_command->add_flag("--skip-bad", e.skip_bad, "Leave damaged pictures out and count them");
  eval_command->add_flag("--quiet", e.quiet, "No progress on stderr");
  eval_command->add_flag("--json", e.json, "Print JSON instead of tables");
  eval_command->callback([&] { code = eval(e); });

  PredictOptions p;
  CLI::App* predict_command =
      app.add_subcommand("predict", "Colour masks, overlays and legends of single pictures");
  add_use_options(*predict_command, p);
  predict_command->add_option("images", p.images, "JPEG or PNG files, or folders of them")->required();
  predict_command->add_option("--out", p.out,
                              "Folder for the pictures (default: predictions, beside the checkpoint)");
  predict_command->add_option("--opacity", p.opacity, "Weight of the mask in the overlay")
      ->check(apps::within(apps::Range{0, 1}))
      ->capture_default_str();
  predict_command->add_flag("--json", p.json, "Print JSON");
  predict_command->callback([&] { code = predict(p); });

  apps::add_compare_command(app, compare_runs, write_comparison);
  apps::add_export_command(app, "Weights as safetensors, by the parameters' names", load_model);
  apps::add_report_command(app, write_report);
  apps::add_recipes_command(app);
  const int parsed = apps::parse(app, std::move(args));
  return parsed != 0 ? parsed : code;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
