#pragma once
#include <string>

#include "apps/command/recipes.h"
#include "apps/run/fields.h"
#include "apps/run/json.h"
#include "apps/run/run_folder.h"

namespace pursuit::apps {

// Quotes a word for a shell, if necessary.
std::string quoted(const std::string& word);

// The train command of a run with the options `used`: the recipe (empty: none), whose options are `of`, and
// the options in which both differ.
std::string train_command(const std::string& app, const std::string& folder, const std::string& recipe,
                          const nlohmann::ordered_json& of, const nlohmann::ordered_json& used);
size_t count_differences(const nlohmann::ordered_json& of, const nlohmann::ordered_json& used);

// The train command of a run, "APP train --recipe NAME --out FOLDER ...", with the recipe, or none, that
// leaves the fewest differing options. A second line names the changes of --resume.
template <class Config> std::string train_command(const std::string& folder, const Config& config) {
  const std::string app = Config::app;
  const nlohmann::ordered_json used = options_to_json(config);
  std::string best = train_command(app, folder, "", options_to_json(Config{}), used);
  size_t fewest = count_differences(options_to_json(Config{}), used);
  for (const std::string& name : recipe_names(app)) {
    try {
      const Recipe recipe = read_recipe(app, name);
      if (!recipe.requires_data.empty() && !names_data(config)) continue;
      Config start;
      apply(recipe, start);
      const nlohmann::ordered_json of = options_to_json(start);
      if (count_differences(of, used) >= fewest) continue;
      fewest = count_differences(of, used);
      best = train_command(app, folder, name, of, used);
    } catch (const Error&) {
      // A damaged recipe must not prevent a report.
    }
  }
  if (const std::string changes = changes_of_run(folder); !changes.empty())
    best += "\n# --resume changed " + changes + "; one training with these settings gives other weights";
  return best;
}

}  // namespace pursuit::apps
