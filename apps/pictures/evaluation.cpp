#include "apps/pictures/evaluation.h"

#include <CLI/CLI.hpp>

#include "apps/command/options.h"
#include "apps/study/reproduce.h"
#include "apps/study/run_commands.h"

namespace pursuit::apps {

std::string PictureEvalOptions::arguments(int64_t looked_at) const {
  std::string text;
  const auto add = [&](bool given, const std::string& argument) {
    if (given) text += (text.empty() ? "" : " ") + argument;
  };
  add(!data.empty(), "--data " + quoted(data));
  add(!format.empty(), "--format " + format);
  add(first > 0, fmt::format("--first {}", first));
  add(looked_at > 0, fmt::format("--limit {}", looked_at));
  if (load.weights) add(true, std::string("--weights ") + choice_name(*load.weights));
  if (load.dtype) add(true, fmt::format("--dtype {}", name_of(*load.dtype)));
  add(!frost.empty(), "--frost " + quoted(frost));
  add(seed > 0, fmt::format("--seed {}", seed));
  return text;
}

void add_picture_eval_options(CLI::App& command, PictureEvalOptions& o) {
  add_load_options(command, o.checkpoint, o.load);
  command.add_option("--data", o.data, "Another data set (default: the run's)");
  command.add_option("--format", o.format, "Layout of --data (default: found out)");
  command.add_option("--first", o.first, "Evaluate the first this many pictures (0: all)")
      ->check(within(any_count));
  command
      .add_option("--limit", o.limit,
                  "Of these evaluate this many, evenly spaced (of drawn scenes the first; 0: all)")
      ->check(within(any_count));
  command.add_option("--batch-size", o.batch_size, "Pictures, or windows of them, per batch (0: the run's)")
      ->check(within(any_batch));
  command.add_option("--corruptions", o.corruptions, "all, or names: gaussian_noise,fog,...")->delimiter(',');
  command.add_option("--severities", o.severities, "Severities of the corruptions")
      ->check(within(Range{1, 5}))
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--frost", o.frost, "Folder with frost overlays (default: drawn ones)");
  command.add_option("--seed", o.seed, "Seed of corruptions and attacks")
      ->check(within(any_seed))
      ->capture_default_str();
  command.add_flag("--skip-bad", o.skip_bad, "Go on without damaged pictures and count them");
  command.add_flag("--quiet", o.quiet, "No progress on stderr");
  command.add_flag("--json", o.json, "Print JSON instead of tables");
}

}  // namespace pursuit::apps
