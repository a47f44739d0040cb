#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "apps/classify/results.h"
#include "apps/pictures/attack_options.h"
#include "apps/pictures/corrupt_command.h"
#include "apps/study/inspect_command.h"
#include "apps/study/program.h"
#include "engine/base/random.h"
#include "nn/attacks/registry.h"

namespace {

using namespace pursuit;
using namespace pursuit::classify;

void add_eval(apps::Program<RunRecord>& program) {
  const auto [command, e] =
      program.add("eval", "Measure accuracy: clean, under corruptions, under attacks", classify::eval);
  apps::add_picture_eval_options(command, e, data::DatasetFormats::help(), {.simulated = true});
  apps::add_choice<data::Split>(
      command, "--split", e.split,
      "Split to evaluate; val are the pictures that --validation held out of the training split")
      ->default_str(choice_name(e.split));
  command.add_option("--test-files", e.test_files, "cifar10: batch files to test on")->delimiter(',');
  command.add_option(
      "--classes", e.classes,
      "Names of the model's classes in order: a file with one a line, or a training set, whose "
      "class folders they are (default: the run's)");
  command.add_option("--outliers", e.outliers,
                     "Folder of pictures of no class, such as ImageNet-O: also measure how well they are "
                     "told from the data");
  apps::add_names(command, "--attack", e.attacks, attacks::names(),
                  fmt::format("Attacks: all, or names: {}", fmt::join(attacks::names(), ", ")));
  apps::add_number(command, "--budgets", e.budgets, "Budgets of attacks in l_inf, in 1/255",
                   apps::above(0, 255))
      ->default_str(fmt::format("[{}]", fmt::join(usual_budgets, ",")));
  apps::add_number(command, "--l2-budgets", e.l2_budgets, "Budgets of attacks in l2", apps::above(0, 1e6))
      ->default_str(fmt::format("[{}]", fmt::join(usual_l2_budgets, ",")));
  apps::add_choice<AttackSpace>(command, "--attack-space", e.attack_space, "What an attack may change")
      ->default_str(choice_name(e.attack_space));
  apps::add_number(command, "--attack-limit", e.attack_limit, "Attack this many pictures (0: as --limit)",
                   apps::any_count);
  command.add_option(
      "--attack-records", e.attack_records,
      "File for a line of JSON about every attack: which pictures fell, and how far each was moved");
  command.add_option("--attacked-by", e.attacked_by,
                     "Run whose model is attacked, with its gradients, labels and choices; the evaluated one "
                     "classifies the pictures (default: that one itself)");
  command.add_flag("--masking-check", e.masking_check,
                   "Attack by APGD, Square, PGD, ten times the steps of PGD, and the whole range of pixels, "
                   "and say what looks as if the model hid its gradient");
  apps::add_attack_options(command, attacks::names(), e.attack_options);
  apps::refuse_without_effect(
      command, {{{"--budgets", "--l2-budgets", "--attack-space", "--attack-limit", "--attack-records"},
                 {"--attack", "--masking-check"}},
                {{"--attacked-by"}, {"--attack"}}});
  apps::add_number(command, "--workers", e.workers, "Threads that prepare batches", apps::any_threads);
}

void add_predict(apps::Program<RunRecord>& program) {
  const auto [command, p] = program.add(
      "predict", "Classify single pictures and draw the class token's attention", classify::predict);
  apps::add_picture_predict_options(command, p, {.simulated = true});
  apps::add_number(command, "--top", p.top, "Classes to print", apps::Range{1, 1e9});
  apps::add_number(command, "--block", p.block, "Block whose attention is shown (-1: the last)",
                   apps::Range{-1000, 999});
}

void add_pack(apps::Program<RunRecord>& program) {
  const auto [command, p] = program.add(
      "pack", "Pack a data set into a few large files, which any number of runs read in any order",
      classify::pack);
  command.add_option("--data", p.data, "Folder with the data set")->required();
  command.add_option("--out", p.out, "Folder for the shards")->required();
  command.add_option("--format", p.format, data::DatasetFormats::help(data::DatasetFormats::Use::packing))
      ->capture_default_str();
  apps::add_choice<data::Packing>(command, "--packing", p.packing, "What is kept of a picture")
      ->default_str(choice_name(p.packing));
  apps::add_number(command, "--shorter", p.shorter,
                   "raw: larger pictures are resized to this shorter side (default: 256)",
                   apps::Range{1, 65536});
  apps::add_number(command, "--shard-mib", p.shard_mib, "Size of a shard, MiB", apps::Range{1, 1 << 20});
  command.add_flag(
      "--skip-bad", p.skip_bad,
      "Leave out empty class folders and, with --packing raw, damaged pictures, which are counted");
}

void add_import(CLI::App& app, int& code) {
  struct Options {
    std::string file, out;
    Config config;
  };
  const auto i = std::make_shared<Options>();
  i->config.heads = 0;  // dim / 64 unless --heads is given: shapes of weights do not show it
  CLI::App* command = app.add_subcommand(
      "import",
      "Make a run from safetensors weights named as in timm, or in FAN's or Scaled Attention's code");
  command->add_option("file", i->file, "The safetensors file to read")->required();
  command->add_option("--out", i->out, "Folder of the new run")->required();
  apps::add_options(*command, i->config);
  command->callback([&code, i, command] {
    const nlohmann::ordered_json options = apps::options_to_json(i->config);
    std::vector<std::string> given;
    for (const auto& [name, value] : options.items())
      if (command->count("--" + name) > 0) given.push_back(name);
    code = import_weights(i->file, i->out, i->config, given);
  });
}

// The loss of a batch of noise, for `inspect`.
Tensor loss_on_noise(const Model& model, const Config& c, int64_t batch_size) {
  Random random(c.seed);
  std::vector<uint8_t> noise(size_t(batch_size * c.channels * c.image_size * c.image_size));
  for (uint8_t& pixel : noise) pixel = uint8_t(random.below(256));
  const Tensor labels = zeros({batch_size}, DType::i64, device_from_name(c.device));
  return cross_entropy(model(input_of(c, noise)).to(DType::f32), labels);
}

void add_quantize(apps::Program<RunRecord>& program) {
  const auto [command, q] = program.add(
      "quantize", "Make a run with int8 weights and activations of a trained one", classify::quantize);
  apps::add_quantize_options(command, q, "pictures");
}

int run(std::vector<std::string> args) {
  apps::Program<RunRecord> program("Trains and studies image classifiers whose attention can be made robust.",
                                   "Weights as safetensors that PyTorch and timm load");
  Config defaults;
  if (apps::peek(args, "--model") == choice_name(Architecture::fan_tiny)) defaults.heads = 4;
  program.add_train("Train a vision transformer, a FAN or a ResNet", args, train, defaults);
  add_eval(program);
  add_predict(program);
  add_quantize(program);
  add_pack(program);
  apps::add_corrupt_command(program.app, program.code);
  apps::add_inspect_command<RunRecord>(program.app, program.code, /*batch size*/ 8, loss_on_noise,
                                       show_split);
  add_import(program.app, program.code);
  program.add_study(run);
  return program.run(std::move(args));
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
