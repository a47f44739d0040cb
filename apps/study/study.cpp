#include "apps/study/study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "apps/command/options.h"
#include "apps/run/evaluations.h"
#include "apps/run/files.h"
#include "apps/run/run_folder.h"
#include "apps/run/run_lock.h"
#include "apps/study/reproduce.h"
#include "apps/terminal/print.h"
#include "apps/terminal/signals.h"
#include "apps/training/checkpoint.h"
#include "apps/training/training_run.h"
#include "engine/cpu/parallel.h"

namespace pursuit::apps {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* way_out = "put that back, choose another --out, or remove the folder to make it anew";

// Options that may be other ones when a run goes on: they do not change its result.
bool is_free(const std::string& option) {
  return may_change(option) && option != "steps" && option != "epochs" && option != "eval-every";
}

struct Run {
  std::string name, folder, variant;
  std::string recipe;  // the first of the settings; may be empty
  uint64_t seed = 0;
  std::vector<Recipe> settings;  // in the order in which they win
  Json options;
  std::string quantized_from;  // the folder of a run that is not trained; else empty
};

enum class Step { done, stopped, failed };

class Runner {
 public:
  Runner(const StudyApp& app, const StudyOptions& options)
      : app_(app),
        options_(options),
        study_(read_study(options.file)),
        out_(options.out.empty() ? "runs/" + study_.name : options.out) {
    check_evaluations();
    check_quantizations();
    std::set<std::string> names;
    for_each_run([&](const Run& run) {
      if (!names.insert(run.name).second)
        fail("study", fmt::format("{}: two runs would be named {}; rename a variant or quantisation",
                                  study_.file, run.name));
      const Json progress = progress_of(run);  // refuses what does not fit
      if (progress.contains("diverged")) failed_[run.name] = progress["diverged"];
    });
    for_each_run([&](const Run& run) { check_data(run); });
    check_folder();
  }

  int run() {
    fs::create_directories(out_);
    const TrainingLock lock(out_);
    catch_stop_signals();
    if (options_.minutes > 0) stop_after(60 * options_.minutes);
    for (const Study::Variant& variant : study_.variants)
      if (!variant.choose.empty()) choose(variant);
    const bool finished = run_all();
    write();
    if (stop_requested()) note("stopped; go on with: {}\n", command());
    return finished ? 0 : 1;
  }

 private:
  // With those of all candidates, trained and quantised.
  void for_each_run(const std::function<void(const Run&)>& f) const {
    for (const Study::Variant& variant : study_.variants)
      for (const Recipe& candidate : candidates(variant))
        for (const uint64_t seed : study_.seeds) {
          const Run run = run_of(variant, candidate, seed);
          f(run);
          for (const Recipe& how : study_.quantizations) f(quantized(run, how));
        }
  }

  // Another study would replace its page.
  void check_folder() const {
    const std::string file = (fs::path(out_) / "study.json").string();
    if (!fs::exists(file)) return;
    const Json there = read_json_object(file).value("study", Json());
    if (there.is_string() && there != study_.name)
      fail("study", fmt::format("{} holds the study {}; choose another --out, or remove its study.json", out_,
                                quoted(option_text(there))));
  }

  // All seeds of a candidate are trained on the same data; their folder may have moved.
  void check_data(const Run& run) {
    if (!run.quantized_from.empty() || !fs::exists(config_path(run.folder))) return;
    const Json config = config_of_run(run.folder), built_in;
    const bool from_files = config.value("data", Json("")) != "";
    const Json data = from_files ? config.value("data-fingerprint", Json()) : built_in;
    const std::string candidate = run.name.substr(0, run.name.rfind('-'));
    auto& [expected, folder] = data_.emplace(candidate, std::pair(data, run.folder)).first->second;
    if (folder == run.folder) expected = data;  // it may have begun anew
    if (data != expected)
      fail("study", fmt::format("{}: {} and {} were trained on different data ('data-fingerprint' in their "
                                "config.json); give the --data of the first and remove the second",
                                study_.file, folder, run.folder));
  }

  void check_evaluations() const {
    for (const Recipe& evaluation : study_.evaluations) {
      for (const auto& [name, value] : evaluation.settings)
        if (name == "checkpoint" || name == "json" || name == "quiet")
          fail("study", fmt::format("{}: '{}' is set by the study; remove it", evaluation.file, name));
        else if (const std::string variant = named_variant(value); !variant.empty() && !find_variant(variant))
          fail("study", fmt::format("{}: '{}' names the run of a variant, but there is no [variants.{}]",
                                    evaluation.file, value, variant));
      set_options(evaluation, *app_.eval);
    }
  }

  void check_quantizations() const {
    for (const Recipe& how : study_.quantizations) {
      if (!app_.quantize)
        fail("study", how.file + ": " + app_.name + " has no command `quantize`; remove it");
      for (const auto& [name, value] : how.settings)
        if (name == "checkpoint" || name == "out")
          fail("study", fmt::format("{}: '{}' is set by the study; remove it", how.file, name));
      set_options(how, *app_.quantize);
    }
  }

  // "softmax" of the value "{softmax}", which stands for that variant's run with the same seed; else empty.
  static std::string named_variant(const std::string& value) {
    const bool named = value.size() > 2 && value.starts_with('{') && value.ends_with('}');
    return named ? value.substr(1, value.size() - 2) : "";
  }
  const Study::Variant* find_variant(const std::string& name) const {
    const auto found = std::find_if(study_.variants.begin(), study_.variants.end(),
                                    [&](const Study::Variant& v) { return v.options.name == name; });
    return found == study_.variants.end() ? nullptr : &*found;
  }

  Run run_of(const Study::Variant& variant, const Recipe& candidate, uint64_t seed) const {
    const std::string& recipe = variant.recipe.empty() ? study_.recipe : variant.recipe;
    Run run{fmt::format("{}-{}", candidate.name, seed), "", variant.options.name, recipe, seed, {}, {}, ""};
    run.folder = (fs::path(out_) / run.name).string();
    if (!recipe.empty()) run.settings.push_back(read_recipe(app_.name, recipe));
    for (const Recipe& part : {study_.options, candidate}) {
      for (const auto& [name, value] : part.settings)
        if (name == "seed")
          fail("study", part.file + ": 'seed' is set by the study; use 'seeds' above the sections");
      run.settings.push_back(part);
    }
    run.settings.push_back({"seed", study_.file, {}, {{"seed", std::to_string(seed)}}});
    if (!options_.data.empty()) run.settings.push_back({"data", "--data", {}, {{"data", options_.data}}});
    try {
      run.options = app_.options(run.settings, !variant.choose.empty());
    } catch (const Error& error) {
      fail("study", fmt::format("{}: {}", candidate.file, error.what()));
    }
    const std::string need = !study_.options.requires_data.empty() ? study_.options.requires_data
                             : !recipe.empty()                     ? run.settings[0].requires_data
                                                                   : "";
    if (!need.empty() && run.options.value("data", "x").empty())
      throw CLI::ValidationError(
          "--data", fmt::format("{} is made for {}: give the folder that holds it", study_.file, need));
    return run;
  }

  // The run that `quantize` makes of a trained one.
  Run quantized(const Run& run, const Recipe& how) const {
    Run made{run.name + "-" + how.name, "", run.variant + " " + how.name, "", run.seed, {}, {}, run.folder};
    made.folder = (fs::path(out_) / made.name).string();
    made.options = Json::object();
    for (const auto& [name, value] : how.settings) made.options[name] = value;
    return made;
  }

  // What is done of a run: {"options", "run": run_id once it is trained, "of": run_id of what it was quantised
  // from, "diverged": why its training ended, "evaluations": {NAME: OPTIONS}}. Empty if nothing is.
  Json progress_of(const Run& run) const {
    Json progress = read_progress(run);
    // Its results were removed, for example since they were damaged.
    if (!fs::exists(evaluations_path(run.folder))) progress.erase("evaluations");
    // It was made of weights that were since trained anew.
    if (!run.quantized_from.empty() && progress.contains("run") &&
        (!fs::exists(config_path(run.quantized_from)) ||
         progress.value("of", "") != run_id(run.quantized_from)))
      return {{"options", progress["options"]}};
    return progress;
  }
  Json read_progress(const Run& run) const {
    const std::string file = progress_path(run);
    if (!fs::exists(file)) {
      if (fs::exists(config_path(run.folder)))
        fail("study", run.folder + " holds a run that this study did not begin; choose another --out");
      return Json::object();
    }
    const Json progress = read_json_object(file);
    const Json begun = progress.value("options", Json::object());
    if (!begun.is_object() || !progress.value("evaluations", Json::object()).is_object() ||
        !progress.value("diverged", Json("")).is_string())
      fail("study", file + " is damaged; remove the folder to train it anew");
    for (const auto& [option, value] : run.options.items())
      if (const Json was = begun.value(option, unset(run, option)); was != value && !is_free(option))
        fail("study",
             fmt::format("{}: {} was begun with{}, now it is to have {}; {}", study_.file, run.folder,
                         was.is_null() ? "out --" + option : " --" + option + " " + quoted(option_text(was)),
                         quoted(option_text(value)), way_out));
    for (const auto& [option, was] : begun.items())
      if (!run.options.contains(option) && !is_free(option))
        fail("study", fmt::format("{}: {} was begun with --{} {}; {}", study_.file, run.folder, option,
                                  quoted(option_text(was)), way_out));
    if (progress.contains("run") && progress["run"] != run_id(run.folder))
      fail("study", run.folder + ": another training has begun there since the study's; remove the folder");
    if (const std::string changes = changes_of_run(run.folder); !changes.empty())
      fail("study",
           fmt::format("{} was trained on by other commands ({}); remove the folder to train it anew",
                       run.folder, changes));
    return progress;
  }
  // The value of an option that the version which began the run did not have yet; null if it has none.
  Json unset(const Run& run, const std::string& option) const {
    if (!run.quantized_from.empty()) return Json();
    if (defaults_.is_null()) defaults_ = app_.options({}, false);
    return defaults_.value(option, Json());
  }
  static std::string progress_path(const Run& run) {
    return (fs::path(run.folder) / "progress.json").string();
  }
  static void write_progress(const Run& run, const Json& progress) {
    write_file_atomically(progress_path(run), progress.dump(1) + "\n");
  }

  // Returns false if it was stopped. Runs that diverged are left out.
  bool run_all() {
    for (const uint64_t seed : study_.seeds) {
      std::vector<Run> trained;  // before any is evaluated, since evaluations may name other variants
      for (const Study::Variant& variant : study_.variants) {
        const std::optional<Recipe> candidate = chosen(variant);
        if (stop_requested()) return false;
        if (!candidate) continue;
        const Run run = run_of(variant, *candidate, seed);
        if (train(run) == Step::done) trained.push_back(run);
        if (stop_requested()) return false;
      }
      for (const Run& run : trained) {
        evaluate(run);
        for (const Recipe& how : study_.quantizations) {
          const Run made = quantized(run, how);
          if (quantize(made) == Step::done) evaluate(made);
        }
        if (stop_requested()) return false;
      }
    }
    return true;
  }

  // The variant's candidate with the best validation score of those trained with the first seed. Empty if a
  // stop was requested, or if all have diverged.
  std::optional<Recipe> chosen(const Study::Variant& variant) {
    if (const auto known = choice_of(variant)) return known;
    for (const Recipe& candidate : candidates(variant))
      if (train(run_of(variant, candidate, study_.seeds[0])) == Step::stopped) return std::nullopt;
    choose(variant);
    return choice_of(variant);
  }

  // Nothing before each candidate is trained or has diverged.
  void choose(const Study::Variant& variant) {
    std::optional<Recipe> best;
    double best_score = 0;
    std::vector<Tried> tried;
    for (const Recipe& candidate : candidates(variant)) {
      const Run run = run_of(variant, candidate, study_.seeds[0]);
      const Json progress = progress_of(run);
      if (progress.contains("diverged")) continue;
      if (!progress.contains("run")) return;
      const ValidationScore score = app_.score(run.folder);
      if (!score.value) fail("study", fmt::format("{}: its metrics lack {}", run.folder, score.metric));
      tried.push_back({variant.options.name, run.name, score.metric, *score.value});
      const double larger_is_better = score.lowest ? -*score.value : *score.value;
      if (!best || larger_is_better > best_score) best = candidate, best_score = larger_is_better;
    }
    if (!best) return;
    tried_.insert(tried_.end(), tried.begin(), tried.end());
    chosen_[variant.options.name] = *best;
    note("{}: {} is chosen by {}\n", variant.options.name, best->name, tried[0].metric);
  }

  // Empty if it is not chosen yet.
  std::optional<Recipe> choice_of(const Study::Variant& variant) const {
    if (variant.choose.empty()) return variant.options;
    const auto found = chosen_.find(variant.options.name);
    return found == chosen_.end() ? std::nullopt : std::optional(found->second);
  }

  Step train(const Run& run) {
    Json progress = progress_of(run);
    if (progress.contains("run")) return Step::done;
    if (progress.contains("diverged")) {
      note("{}: {}; remove {} to try again\n", run.name, failed_[run.name], run.folder);
      return Step::failed;
    }
    std::map<std::string, std::string> settings;
    for (size_t i = run.recipe.empty() ? 0 : 1; i < run.settings.size(); ++i)
      for (const auto& [name, value] : run.settings[i].settings) settings[name] = value;
    const bool resumes = fs::exists(config_path(run.folder));
    std::vector<std::string> args = {"train", resumes ? "--resume" : "--out", run.folder};
    if (!resumes && !run.recipe.empty()) args.insert(args.end(), {"--recipe", run.recipe});
    for (const auto& [name, value] : settings)
      if (!resumes || is_free(name)) args.push_back("--" + name + "=" + value);
    fs::create_directories(run.folder);
    write_progress(run, {{"options", run.options}});
    const Step step = call(run, "train", std::move(args));
    if (step == Step::done) write_progress(run, {{"options", run.options}, {"run", run_id(run.folder)}});
    if (step == Step::failed)
      write_progress(run, {{"options", run.options}, {"diverged", failed_.at(run.name)}});
    check_data(run);
    return step;
  }

  Step quantize(const Run& made) {
    if (progress_of(made).contains("run")) return Step::done;
    fs::create_directories(made.folder);
    remove_old_run(made.folder);  // what was left by one that was killed
    fs::remove(config_path(made.folder));
    write_progress(made, {{"options", made.options}});
    std::vector<std::string> args = {"quantize", "--checkpoint", made.quantized_from, "--out", made.folder};
    for (const auto& [name, value] : made.options.items())
      args.push_back("--" + name + "=" + value.get<std::string>());
    const Step step = call(made, "quantize", std::move(args));
    if (step == Step::done)
      write_progress(
          made,
          {{"options", made.options}, {"run", run_id(made.folder)}, {"of", run_id(made.quantized_from)}});
    return step;
  }

  static std::vector<std::string> arguments(const Recipe& evaluation) {
    std::vector<std::string> words;
    for (const auto& [name, value] : evaluation.settings) words.push_back("--" + name + "=" + value);
    return words;
  }
  // The run that "{VARIANT}" stands for. Empty if it is not trained.
  std::optional<Run> named_run(const std::string& variant, uint64_t seed) const {
    const std::optional<Recipe> candidate = choice_of(*find_variant(variant));
    if (!candidate) return std::nullopt;
    Run run = run_of(*find_variant(variant), *candidate, seed);
    if (!progress_of(run).contains("run")) return std::nullopt;
    return run;
  }
  // With the folders of the named runs. Empty if one of them is not trained.
  std::optional<std::vector<std::string>> arguments(const Recipe& evaluation, uint64_t seed) const {
    Recipe filled = evaluation;
    for (auto& [name, value] : filled.settings) {
      const std::string variant = named_variant(value);
      if (variant.empty()) continue;
      const std::optional<Run> run = named_run(variant, seed);
      if (!run) return std::nullopt;
      value = run->folder;
    }
    return arguments(filled);
  }
  // What the results of an evaluation depend on: its options, and the ids of the named runs. Null if one of them
  // is not trained.
  Json made_with(const Recipe& evaluation, uint64_t seed) const {
    Json words = arguments(evaluation);
    for (const auto& [name, value] : evaluation.settings) {
      const std::string variant = named_variant(value);
      if (variant.empty()) continue;
      const std::optional<Run> run = named_run(variant, seed);
      if (!run) return Json();
      words.push_back(variant + " is " + run_id(run->folder));
    }
    return words;
  }
  bool is_evaluated(const Json& progress, const Recipe& evaluation, uint64_t seed) const {
    const Json done = progress.value("evaluations", Json::object()).value(evaluation.name, Json());
    return !done.is_null() && done == made_with(evaluation, seed);
  }

  // By every evaluation.
  void evaluate(const Run& run) {
    for (const Recipe& evaluation : study_.evaluations) evaluate(run, evaluation);
  }

  Step evaluate(const Run& run, const Recipe& evaluation) {
    Json progress = progress_of(run);
    if (is_evaluated(progress, evaluation, run.seed)) return Step::done;
    const auto words = arguments(evaluation, run.seed);
    if (!words) {
      note("{}: eval {} of {} needs the run of a variant that is not trained\n", study_.name, evaluation.name,
           run.name);
      return Step::failed;
    }
    std::vector<std::string> args = {"eval", "--checkpoint", run.folder};
    args.insert(args.end(), words->begin(), words->end());
    const Step step = call(run, "eval " + evaluation.name, std::move(args));
    if (step != Step::done) return step;
    progress["evaluations"][evaluation.name] = made_with(evaluation, run.seed);
    write_progress(run, progress);
    return step;
  }

  // Runs one of the app's commands.
  Step call(const Run& run, const std::string& what, std::vector<std::string> args) {
    if (stop_requested()) return Step::stopped;
    note("{}: {} {}\n", study_.name, what, run.name);
    if (options_.quiet && args[0] != "quantize") args.push_back("--quiet");
    set_num_threads(threads_);  // a step's own number is not the next one's
    try {
      const int code = app_.run(std::move(args));
      if (code == 0) {
        ++done_;
        return Step::done;
      }
      if (stop_requested() && done_ == 0 && what != "train" && options_.minutes > 0)
        note("{} takes longer than {} minutes, and begins anew; give more\n", what, options_.minutes);
      if (stop_requested()) return Step::stopped;
      fail("study", fmt::format("{} {} ended with exit code {}", what, run.name, code));
    } catch (const NotFinite& error) {
      note("{}: {}\n", run.name, error.what());
      failed_[run.name] = error.what();
      return Step::failed;
    }
  }

  std::string command() const {
    std::string text = app_.name + " study " + quoted(study_.file) + " --out " + quoted(out_);
    if (!options_.data.empty()) text += " --data " + quoted(options_.data);
    return text;
  }

  // The trained runs of all variants; `complete` counts those with all evaluations, `former` names the evaluations
  // that the file no longer has.
  std::vector<StudiedRun> trained(int64_t& complete, std::set<std::string>& former) const {
    std::vector<StudiedRun> runs;
    for (const Study::Variant& variant : study_.variants)
      if (const auto candidate = choice_of(variant))
        for (const uint64_t seed : study_.seeds) {
          std::vector<Run> made = {run_of(variant, *candidate, seed)};
          for (const Recipe& how : study_.quantizations) made.push_back(quantized(made[0], how));
          for (const Run& run : made) {
            const Json progress = progress_of(run);
            if (!progress.contains("run")) continue;
            runs.push_back({run.folder, run.variant});
            const Json evaluations = progress.value("evaluations", Json::object());
            for (const auto& [name, words] : evaluations.items()) former.insert(name);
            complete += std::all_of(study_.evaluations.begin(), study_.evaluations.end(),
                                    [&](const Recipe& e) { return is_evaluated(progress, e, run.seed); });
          }
        }
    for (const Recipe& evaluation : study_.evaluations) former.erase(evaluation.name);
    return runs;
  }

  // Writes the page and its numbers, and prints the table.
  void write() const {
    int64_t complete = 0;
    std::set<std::string> former;
    const std::vector<StudiedRun> runs = trained(complete, former);
    if (runs.empty()) return;
    std::string former_note;
    if (!former.empty())
      former_note = fmt::format(
          "the numbers include those of evaluations that {} no longer has: {}; to leave them out, remove the "
          "runs' eval.json, and all others are measured anew",
          study_.file, fmt::join(former, ", "));
    const std::string page_file = (fs::path(out_) / "study.html").string(),
                      numbers_file = (fs::path(out_) / "study.json").string();
    const auto planned =
        int64_t(study_.variants.size() * study_.seeds.size() * (1 + study_.quantizations.size()));
    const std::string state = fmt::format("{} of {} runs are trained{} and evaluated", complete, planned,
                                          study_.quantizations.empty() ? "" : " or quantised");
    app_.compare(runs, [&](const Comparison& comparison, const std::vector<const RunFolder*>& folders,
                           ComparisonPage page) {
      Json numbers = {{"study", study_.name}, {"complete", complete}, {"planned", planned}};
      numbers["choices"] = Json::array();
      Table choices{{"variant", "run", "metric", "value", ""}, {}};
      for (const Tried& t : tried_) {
        const bool is_chosen = t.run == fmt::format("{}-{}", chosen_.at(t.variant).name, study_.seeds[0]);
        choices.rows.push_back(
            {t.variant, t.run, t.metric, fmt::format("{:.4f}", t.value), is_chosen ? "chosen" : ""});
        numbers["choices"].push_back({{"variant", t.variant},
                                      {"run", t.run},
                                      {"metric", t.metric},
                                      {"value", t.value},
                                      {"chosen", is_chosen}});
      }
      numbers["overview"] = to_json(comparison);
      for (const ComparisonPage::Detail& detail : page.details)
        numbers[detail.title] = to_json(detail.comparison);
      page.title = "Study " + study_.name;
      page.sections = [&, own = page.sections](Report& report) {
        if (own) own(report);
        report.section("Study");
        report.paragraph(state + ".");
        if (!former_note.empty()) report.paragraph("Note: " + former_note + ".");
        for (const auto& [name, why] : failed_) report.paragraph(name + ": " + why);
        if (!choices.rows.empty())
          report.table(choices, "Settings chosen by the metric on validation data, with the first seed.");
        Table evaluations{{"evaluation", "options of eval"}, {}};
        for (const Recipe& evaluation : study_.evaluations)
          evaluations.rows.push_back(
              {evaluation.name, fmt::format("{}", fmt::join(arguments(evaluation), " "))});
        if (!evaluations.rows.empty()) report.table(evaluations, "Every run is evaluated by these.");
        Table quantizations{{"quantisation", "options of quantize"}, {}};
        for (const Recipe& how : study_.quantizations)
          quantizations.rows.push_back({how.name, fmt::format("{}", fmt::join(arguments(how), " "))});
        if (!quantizations.rows.empty())
          report.table(quantizations, "Of every trained run these were made; they are evaluated as it is.");
        report.code(command() + "\n");
      };
      write_comparison(page_file, app_.name, comparison, folders, page);
      write_file_atomically(numbers_file, numbers.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
      print(comparison, false, false);
    });
    if (!former_note.empty()) note("note: {}\n", former_note);
    apps::print("{}\n{}\n{}\n", state, page_file, numbers_file);
  }

  const StudyApp& app_;
  const StudyOptions& options_;
  const Study study_;
  const std::string out_;
  const int threads_ = num_threads();
  mutable Json defaults_;  // of all options of `train`; null before they are needed
  struct Tried {
    std::string variant, run, metric;
    double value;
  };
  std::vector<Tried> tried_;              // candidates of the variants in chosen_
  std::map<std::string, Recipe> chosen_;  // by variant
  // Data and folder of the first run of every candidate that has begun, by the name without the seed.
  std::map<std::string, std::pair<Json, std::string>> data_;
  int64_t done_ = 0;                           // steps of this call
  std::map<std::string, std::string> failed_;  // runs that diverged, and how
};

}  // namespace

int run_study(const StudyApp& app, const StudyOptions& options) { return Runner(app, options).run(); }

void add_study_options(CLI::App& command, StudyOptions& o) {
  command.add_option("file", o.file, "The study: a TOML file with variants, seeds and evaluations")
      ->required();
  command.add_option("--data", o.data, "Folder with the data set of all runs");
  command.add_option("--out", o.out, "Folder of the study (default: runs/NAME for the file NAME.toml)");
  add_number(command, "--minutes", o.minutes,
             "Stop after so many minutes; the same command goes on later (0: no limit)", Range{0, 1e6});
  command.add_flag("--quiet", o.quiet, "No progress of single steps on stderr");
}

}  // namespace pursuit::apps
