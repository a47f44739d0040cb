#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "apps/common/command_line.h"
#include "apps/common/fields.h"
#include "apps/common/options.h"
#include "apps/common/recipes.h"
#include "apps/common/run_folder.h"
#include "apps/training/training_run.h"

namespace pursuit::apps {

// Adds `train` to an app's command line. What --resume and --recipe name is read here, before the parser
// runs: it sets what the options start from. `code` becomes what train(config, options) returns; all that is
// given must outlive the parser.
template <class Config, class Train>
void add_train_command(CLI::App& app, const std::string& help, std::vector<std::string>& args, Config& config,
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
  add_run_options(*command, options, "runs/" + app.get_name() + "-ATTENTION-SEED");
  add_options(*command, config);
  command->callback([&, command, train, recipe] {
    if (!options.resume.empty()) check_resume_options(*command);
    if (!recipe.requires_data.empty() && config.data.empty())
      throw CLI::ValidationError(
          "--data", fmt::format("recipe {} is made for {}: give the folder that holds it", recipe.name,
                                recipe.requires_data));
    if (!recipe.file.empty()) validate_with(recipe, config);
    if (options.out.empty())
      options.out = fmt::format("runs/{}-{}-{}", app.get_name(), config.attention, config.seed);
    check_folder(options);  // before the data is read
    code = train(config, options);
  });
}

}  // namespace pursuit::apps
