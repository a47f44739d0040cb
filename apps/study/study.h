#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/command/recipes.h"
#include "apps/run/fields.h"
#include "apps/study/comparison_page.h"
#include "apps/study/study_file.h"
#include "apps/training/fields.h"

namespace pursuit::apps {

struct StudyOptions {
  std::string file, data, out;  // data: of all runs, instead of the file's; out: folder of the study
  double minutes = 0;           // 0: no limit
  bool quiet = false;
};

// A trained run of a study, for its page.
struct StudiedRun {
  std::string folder, variant;
};

// What a study asks of an app.
struct StudyApp {
  using Use = std::function<void(const Comparison&, const std::vector<const RunFolder*>&, ComparisonPage)>;

  std::string name;
  // The app's main function; every step of a study is a call of it.
  int (*run)(std::vector<std::string> args);
  CLI::App* eval;      // the subcommand whose options evaluations set
  CLI::App* quantize;  // the same of quantizations; null where there is none
  // The options of a run with these settings, of which the last ones win. Throws Error if one is wrong, or if
  // `chooses` and the run has no data to choose a setting on.
  std::function<nlohmann::ordered_json(const std::vector<Recipe>& settings, bool chooses)> options;
  std::function<ValidationScore(const std::string& folder)> score;  // of a trained run
  std::function<void(const std::vector<StudiedRun>&, const Use& use)> compare;
};

// Trains, evaluates and compares what is missing. Keeps every run in a folder of its own in the study's
// folder, with what is done in progress.json; writes study.html and study.json, the page and its numbers. A
// study that was stopped or killed goes on with the same results. A run that diverged is named on the page, and
// trained again only once its folder is removed. Returns the exit code: 1 if something is left to do. Throws
// Error that names the file if it is wrong, or a run that was begun with other options or on other data.
int run_study(const StudyApp& app, const StudyOptions& options);

void add_study_options(CLI::App& command, StudyOptions& options);

// Adds `study FILE` to an app with the subcommands `train` and `eval`. The app defines
// validation_score(config), the metric by which a setting is chosen; it throws Error if training has no
// validation data.
template <class Record>
void add_study_command(CLI::App& app, int& code, int (*run)(std::vector<std::string>)) {
  using Config = typename Record::Config;
  const auto o = std::make_shared<StudyOptions>();
  CLI::App* command = app.add_subcommand("study", "Train, evaluate and compare all that a file lists");
  add_study_options(*command, *o);
  command->callback([&app, &code, run, o] {
    const auto quantize =
        app.get_subcommands([](const CLI::App* command) { return command->get_name() == "quantize"; });
    StudyApp study{Config::app, run, app.get_subcommand("eval"), quantize.empty() ? nullptr : quantize[0], {},
                   {},          {}};
    study.options = [](const std::vector<Recipe>& settings, bool chooses) {
      Config config;
      for (const Recipe& recipe : settings) apply(recipe, config);
      validate(config);
      if (config.ranks > 1) fail("study", "--ranks: a study trains in one process");
      if (chooses) validation_score(config);
      return options_to_json(config);
    };
    study.score = [](const std::string& folder) {
      const Record record(folder);
      if (!record.config) fail_no_run(record);
      ValidationScore score = validation_score(*record.config);
      score.value = record.last(score.metric);
      return score;
    };
    study.compare = [](const std::vector<StudiedRun>& runs, const StudyApp::Use& use) {
      std::vector<std::string> folders;
      for (const StudiedRun& r : runs) folders.push_back(r.folder);
      std::vector<Record> records = read_runs<Record>(folders);
      for (size_t i = 0; i < runs.size(); ++i) records[i].group = runs[i].variant;
      use(apps::compare(records, [](const Record& r) { return compared(r); }), folders_of(records),
          comparison_page(records));
    };
    code = run_study(study, *o);
  });
}

}  // namespace pursuit::apps
