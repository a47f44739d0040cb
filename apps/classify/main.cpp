#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/classify/commands.h"
#include "apps/classify/run.h"
#include "apps/common/command_line.h"
#include "apps/common/options.h"
#include "apps/training/export_command.h"
#include "apps/training/run_commands.h"
#include "apps/training/train_command.h"
#include "engine/core/program.h"
#include "nn/attacks/attacks.h"

namespace {

using namespace pursuit;
using namespace pursuit::classify;

int run(std::vector<std::string> args) {
  CLI::App app{"Trains and studies image classifiers whose attention can be made robust."};
  app.name("classify");
  app.set_version_flag("--version", PURSUIT_VERSION);
  app.require_subcommand(1);
  int code = 0;

  Config config;
  apps::RunOptions options;
  apps::add_train_command(app, "Train a vision transformer", args, config, options, code, train);

  EvalOptions e;
  CLI::App* eval_command = app.add_subcommand("eval", "Accuracy, clean, under corruptions and under attack");
  apps::add_load_options(*eval_command, e.checkpoint, e.load);
  eval_command->add_option("--data", e.data, "Another data set (default: the run's)");
  eval_command->add_option("--format", e.format, "Layout of --data");
  eval_command->add_option("--test-files", e.test_files, "cifar10: batch files to test on")->delimiter(',');
  eval_command->add_option("--corruptions", e.corruptions, "all, or names: gaussian_noise,fog,...")
      ->delimiter(',');
  eval_command->add_option("--severities", e.severities, "Severities of the corruptions")
      ->check(apps::within(apps::Range{1, 5}))
      ->delimiter(',');
  eval_command->add_option("--attack", e.attacks, "fgsm, pgd, spsa, cw, sld, noise")->delimiter(',');
  eval_command->add_option("--budgets", e.budgets, "Budgets of fgsm and pgd in 1/255")
      ->check(apps::within(apps::above(0, 255)))
      ->delimiter(',');
  eval_command
      ->add_option("--attack-space", e.attack_space,
                   "normalised (as published: no clipping, labels from the model) or pixel (clipped to the "
                   "valid range, true labels)")
      ->capture_default_str();
  eval_command->add_option("--first", e.first, "Evaluate the first this many pictures (0: all)")
      ->check(apps::within(apps::any_count));
  eval_command->add_option("--limit", e.limit, "Of these evaluate this many, evenly spaced (0: all)")
      ->check(apps::within(apps::any_count));
  eval_command->add_option("--attack-limit", e.attack_limit, "Attack this many pictures (0: as --limit)")
      ->check(apps::within(apps::any_count));
  eval_command->add_option("--batch-size", e.batch_size, "Pictures per batch (0: the run's)")
      ->check(apps::within(apps::any_batch));
  eval_command->add_option("--spsa-steps", e.spsa_steps, "spsa: steps")
      ->check(apps::within(apps::Range{1, attacks::max_spsa_steps}))
      ->capture_default_str();
  eval_command->add_option("--spsa-samples", e.spsa_samples, "spsa: directions per step")
      ->check(apps::within(apps::Range{1, 1e6}))
      ->capture_default_str();
  eval_command->add_option("--frost", e.frost, "Folder with frost overlays (default: drawn ones)");
  eval_command->add_option("--seed", e.seed, "Seed of corruptions and attacks")
      ->check(apps::within(apps::any_seed))
      ->capture_default_str();
  eval_command->add_option("--workers", e.workers, "Threads that prepare batches")
      ->check(apps::within(apps::any_threads))
      ->capture_default_str();
  eval_command->add_flag("--skip-bad", e.skip_bad, "Replace damaged pictures and count them");
  eval_command->add_flag("--quiet", e.quiet, "No progress on stderr");
  eval_command->add_flag("--json", e.json, "Print JSON instead of tables");
  eval_command->callback([&] { code = eval(e); });

  apps::add_compare_command(app, compare_runs, write_comparison);

  PredictOptions p;
  CLI::App* predict_command =
      app.add_subcommand("predict", "Classes of single pictures, with what the model looks at");
  apps::add_load_options(*predict_command, p.checkpoint, p.load);
  predict_command->add_option("images", p.images, "JPEG or PNG files, or folders of them")->required();
  predict_command->add_option(
      "--out", p.out, "Folder for the attention pictures (default: predictions, beside the checkpoint)");
  predict_command->add_option("--top", p.top, "Classes to print")
      ->check(apps::within(apps::Range{1, 1e9}))
      ->capture_default_str();
  predict_command->add_option("--block", p.block, "Block whose attention is shown (-1: the last)")
      ->check(apps::within(apps::Range{-1000, 999}))
      ->capture_default_str();
  predict_command->add_flag("--json", p.json, "Print JSON");
  predict_command->callback([&] { code = predict(p); });

  CorruptOptions c;
  CLI::App* corrupt_command =
      app.add_subcommand("corrupt", "Pictures under the corruptions of ImageNet-C, as PNG");
  corrupt_command->add_option("images", c.images, "JPEG or PNG files, or folders of them")->required();
  corrupt_command->add_option("--corruption", c.corruptions, "all, or names: gaussian_noise,fog,...")
      ->delimiter(',')
      ->capture_default_str();
  corrupt_command->add_option("--severity", c.severities, "all, or of 1 to 5")
      ->delimiter(',')
      ->capture_default_str();
  corrupt_command->add_option("--out", c.out, "Folder for the pictures: NAME-fog-3.png")->required();
  corrupt_command
      ->add_option(
          "--size", c.size,
          "First resize the shorter side to 256/224 of this and cut out the middle, as ImageNet-C does "
          "with 224 (0: corrupt pictures as they are)")
      ->capture_default_str();
  corrupt_command->add_option("--frost", c.frost, "Folder with frost overlays (default: drawn ones)");
  corrupt_command
      ->add_option("--seed", c.seed, "Seed of the noise; every picture of the list has its own of it")
      ->check(apps::within(apps::any_seed))
      ->capture_default_str();
  corrupt_command->callback([&] { code = corrupt(c); });

  apps::add_export_command(app, "Weights as safetensors that PyTorch and timm load", load_model);

  std::string file, out;
  Config import_config;
  import_config.heads = 0;  // dim / 64, unless told otherwise: the weights do not say
  CLI::App* import_command = app.add_subcommand(
      "import", "A run from safetensors weights with timm's names, or those of Scaled Attention's code");
  import_command->add_option("file", file, "The safetensors file to read")->required();
  import_command->add_option("--out", out, "Folder of the new run")->required();
  apps::add_options(*import_command, import_config);
  import_command->callback([&, import_command] {
    const nlohmann::ordered_json options = apps::options_to_json(import_config);
    std::vector<std::string> given;
    for (const auto& [name, value] : options.items())
      if (import_command->count("--" + name) > 0) given.push_back(name);
    code = import_weights(file, out, import_config, given);
  });

  apps::add_report_command(app, write_report);
  apps::add_recipes_command(app);
  const int parsed = apps::parse(app, std::move(args));
  return parsed != 0 ? parsed : code;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
