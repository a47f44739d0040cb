#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "apps/command/command_line.h"
#include "apps/command/options.h"
#include "apps/command/recipes.h"
#include "apps/run/fields.h"
#include "apps/run/run_folder.h"
#include "apps/terminal/print.h"
#include "apps/training/ranks.h"
#include "apps/training/training_run.h"

namespace pursuit::apps {

// The default name of a run, "classify-rpc". `word`, if not empty, replaces the attention kind (or
// the app's run_word(config)).
template <class Config> std::string run_kind(const Config& config, const std::string& word = "") {
  std::string kind = Config::app;
  std::replace(kind.begin(), kind.end(), ' ', '-');
  if constexpr (requires { run_word(config); })
    kind += "-" + (word.empty() ? run_word(config) : word);
  else if constexpr (requires { config.attention; })
    kind += "-" + (word.empty() ? config.attention : word);
  return kind;
}

// The default folder of a run, for the help of --out: "runs/classify-ATTENTION-SEED". Config::run_words, if an
// app has it, says which words stand in place of the attention kind.
template <class Config> std::string default_folder(const Config& config) {
  const char* words = "ATTENTION";
  if constexpr (requires { Config::run_words; }) words = Config::run_words;
  return fmt::format("runs/{}-SEED", run_kind(config, words));
}

// Names the given options that change nothing: those of attention kinds that the model does not run, and those
// that the app's without_effect(config) lists with the reason, if it has one. A recipe's are not named: they are
// for who chooses what they belong to. Also says if --keep-best chooses by what the run is tested on.
template <class Config> void note_options(const CLI::App& train, const Config& config) {
  validate(config);
  const auto note_given = [&](const std::string& name, const std::string& why) {
    if (const CLI::Option* given = train.get_option_no_throw("--" + name); given && given->count() > 0)
      note("note: --{} changes nothing: {}\n", name, why);
  };
  if constexpr (requires { config.kind_options; })
    for (const nn::KindOption& option : unused_options(config, config.depth))
      note_given(option.name, fmt::format("no block runs an attention kind that has it ({})", option.help));
  if constexpr (requires { without_effect(config); })
    for (const auto& [option, why] : without_effect(config)) note_given(option, why);
  if constexpr (requires { validation_score(config); }) {
    if (!config.keep_best) return;
    try {
      validation_score(config);
    } catch (const Error& error) {
      note("note: --keep-best: scores of best.safetensors on the test are too good: {}\n", error.what());
    }
  }
}

// Adds `train` to an app's command line. --resume and --recipe are read before the parser runs, because they
// set the defaults of the options. `code` is set to the exit code of train(config, options, ranks), or of the
// processes that --ranks starts. All arguments must outlive the parser.
template <class Config, class Train> void add_train_command(CLI::App& app, const std::string& help,
                                                            std::vector<std::string>& args, Config& config,
                                                            RunOptions& options, int& code, Train train) {
  Recipe recipe;
  if (!args.empty() && args[0] == "train") {
    if (const auto folder = peek(args, "--resume"))
      config = fields_from_json<Config>(config_of_run(*folder), config_path(*folder));
    if (const auto name = peek(args, "--recipe")) {
      recipe = read_recipe(app.get_name(), *name);
      apply(recipe, config);
    }
  }
  CLI::App* command = app.add_subcommand("train", help);
  add_run_options(*command, options, default_folder(config));
  add_options(*command, config);
  int64_t batches = config.ranks * config.accumulate;  // per step of the resumed run
  command->callback([&, command, train, recipe, batches]() mutable {
    if (!options.resume.empty()) check_resume_options(*command);
    if (!recipe.requires_data.empty() && !names_data(config))
      throw CLI::ValidationError(
          "--data", fmt::format("recipe {} is made for {}: give the folder that holds it", recipe.name,
                                recipe.requires_data));
    if (!recipe.file.empty()) validate_with(recipe, config);
    if (options.out.empty()) options.out = fmt::format("runs/{}-{}", run_kind(config), config.seed);
    if (options.resume.empty() && began_before(options.out)) {
      options.resume = options.out;
      config = fields_from_json<Config>(config_of_run(options.out), config_path(options.out));
      batches = config.ranks * config.accumulate;
    }
    const distributed::Job job = distributed::job_from_environment();
    if (job.size > 1 && command->count("--ranks") > 0 && config.ranks != job.size)
      throw CLI::ValidationError("--ranks",
                                 fmt::format("is {}, but {} ranks were started", config.ranks, job.size));
    if (job.size > 1) config.ranks = job.size;
    if (!options.resume.empty()) keep_batches(batches, config);
    if (job.size == 1 && config.ranks > 1) {
      check_folder(options);
      code = launch_ranks(config.ranks);
      return;
    }
    code = with_ranks(config.device, options.ranks, [&](distributed::Communicator& ranks) {
      if (ranks.rank() == 0) {
        check_folder(options);  // before the data is read
        if (options.resume.empty()) note_options(*command, config);
      }
      return train(config, options, ranks);
    });
  });
}

}  // namespace pursuit::apps
