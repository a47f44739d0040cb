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
  add(skip_bad, "--skip-bad");
  add(looked_at > 0, fmt::format("--limit {}", looked_at));
  if (const std::string how = load.arguments(); !how.empty()) add(true, how);
  add(!frost.empty(), "--frost " + quoted(frost));
  add(seed > 0, fmt::format("--seed {}", seed));
  return text;
}

void add_data_options(CLI::App& command, std::string& data, std::string& format, const std::string& formats) {
  command.add_option("--data", data, "Another data set (default: the run's)");
  command.add_option("--format", format, formats + " (default: auto with --data, else the run's)");
}

void add_picture_eval_options(CLI::App& command, PictureEvalOptions& o, const std::string& formats,
                              const LoadChoices& choices) {
  add_eval_options(command, o, "Pictures (or windows) per batch (0: the run's)", choices);
  add_data_options(command, o.data, o.format, formats);
  add_number(command, "--first", o.first, "Use only this many pictures, the first ones (0: all)", any_count);
  add_number(command, "--limit", o.limit,
             "Evaluate this many of these, evenly spaced (the first of drawn scenes; 0: all)", any_count);
  add_names(command, "--corruptions", o.corruptions, data::corruption_names(),
            "Corruptions: all, or names such as gaussian_noise,fog");
  add_number(command, "--severities", o.severities, "Severities of the corruptions", Range{1, 5})
      ->default_str("[1,2,3,4,5]");
  command.add_option("--frost", o.frost, "Folder with frost overlays (default: drawn ones)");
  add_number(command, "--seed", o.seed, "Seed of corruptions and attacks", any_seed);
  command.add_flag("--skip-bad", o.skip_bad, "Skip damaged pictures and count them");
}

}  // namespace pursuit::apps
