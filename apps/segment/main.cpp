#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "apps/command/options.h"
#include "apps/pictures/attack_options.h"
#include "apps/segment/commands.h"
#include "apps/segment/interactive/commands.h"
#include "apps/segment/pipeline.h"
#include "apps/segment/results.h"
#include "apps/study/inspect_command.h"
#include "apps/study/program.h"
#include "engine/base/random.h"
#include "engine/ops.h"

namespace {

using namespace pursuit;
using namespace pursuit::segment;

void add_view_options(CLI::App& command, ViewOptions& o) {
  apps::add_number(command, "--stride", o.stride,
                   "Pixels between windows (0: windows side by side; default: the run's)",
                   apps::Range{0, 4096});
  apps::add_number(command, "--short-side", o.short_side,
                   "Resize pictures to this shorter side (0: no resizing; default: the run's)",
                   apps::Range{0, 16384});
  apps::add_number(command, "--long-side", o.long_side,
                   "With --short-side: limit of the longer side (0: no limit; default: the run's)",
                   apps::Range{0, 16384});
  apps::add_number(command, "--scales", o.scales,
                   "Average the probabilities over these scales of the pictures (default: the run's)",
                   apps::Range{0.1, 4});
  command.add_flag_function(
      "--flip,!--no-flip", [&o](int64_t times) { o.flip = times > 0; },
      "Average over the mirrored pictures too (default: the run's)");
}

void add_eval(apps::Program<RunRecord>& program) {
  const auto [command, e] = program.add(
      "eval", "Measure pixel accuracy, mean accuracy and mIoU: clean, under corruptions, under attacks",
      segment::eval);
  apps::add_picture_eval_options(command, e, data::SegmentationFormats::help());
  command.get_option("--severities")->default_str("[1]");
  add_view_options(command, e.views);
  apps::add_choice<data::Split>(command, "--split", e.split,
                                "Split to evaluate; if the data has only one of val and test, that one")
      ->default_str(choice_name(e.split));
  apps::add_names(command, "--attack", e.attacks, segment::attack_names(),
                  fmt::format("Attacks: all, or names: {}", fmt::join(segment::attack_names(), ", ")));
  apps::add_number(command, "--budgets", e.budgets, "Budgets of the attacks on pixels of a view, in 1/255",
                   apps::above(0, 255));
  apps::add_number(command, "--attack-limit", e.attack_limit, "Attack this many pictures (0: as --limit)",
                   apps::any_count);
  apps::add_attack_options(command, segment::attack_names(), e.attack_options);
  apps::refuse_without_effect(command, {{{"--budgets", "--attack-limit"}, {"--attack"}}});
  command.add_option("--save-predictions", e.save_predictions,
                     "Write the predicted class numbers to this folder, a PNG for each picture");
}

void add_predict(apps::Program<RunRecord>& program) {
  const auto [command, p] =
      program.add("predict", "Segment single pictures: colour masks, overlays, legends", segment::predict);
  apps::add_picture_predict_options(command, p);
  add_view_options(command, p.views);
  apps::add_number(command, "--batch-size", p.batch_size, "Windows per batch (0: the run's)",
                   apps::any_batch);
  apps::add_number(command, "--opacity", p.opacity, "Weight of the mask in the overlay", apps::Range{0, 1});
}

// The loss of a batch of noise, for `inspect --tape`.
Tensor loss_on_noise(const nn::Segmenter& model, const Config& c, int64_t batch_size) {
  Random random(c.seed);
  std::vector<uint8_t> noise(size_t(batch_size * 3 * c.height * c.width));
  for (uint8_t& pixel : noise) pixel = uint8_t(random.below(256));
  const Tensor pixels = from_vector(noise, {batch_size, 3, c.height, c.width});
  const Tensor images = normalise_images(pixels.to(device_from_name(c.device)), c.mean, c.std, c.dtype);
  const Tensor labels = zeros({batch_size, c.height, c.width}, DType::i64, images.device());
  return upsample_cross_entropy(model(images), labels, data::kIgnoredLabel);
}

int run(std::vector<std::string> args) {
  apps::Program<RunRecord> program(
      "Trains and studies semantic segmenters whose attention can be made robust.",
      "Weights as safetensors, by the parameters' names");
  program.add_train("Train a segmenter", args, train);
  add_eval(program);
  add_predict(program);
  apps::add_inspect_command<RunRecord>(program.app, program.code, /*batch size*/ 2, loss_on_noise,
                                       show_split);
  program.add_study(run);
  CLI::App* interactive = program.app.add_subcommand(
      "interactive", "Segment the object that is clicked on: train, eval, serve, ...");
  interactive->set_help_flag();
  interactive->prefix_command();
  interactive->callback(
      [&program, interactive] { program.code = interactive::run(interactive->remaining()); });
  return program.run(std::move(args));
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
