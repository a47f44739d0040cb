#include "apps/pca/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "apps/command/command_line.h"
#include "apps/command/options.h"
#include "apps/pca/bars.h"
#include "apps/pca/page.h"
#include "apps/pca/result.h"
#include "apps/run/run_lock.h"
#include "apps/study/statistics.h"
#include "apps/terminal/print.h"
#include "apps/terminal/progress.h"
#include "apps/terminal/signals.h"
#include "apps/terminal/text.h"
#include "engine/base/error.h"
#include "engine/cpu/parallel.h"
#include "engine/files/atomic_file.h"

namespace pursuit::pca {

namespace {

struct Options {
  std::vector<std::string> figures;
  std::string out = "runs/pca";
  uint64_t seed = 0;
  bool full = false, script_gradient = false, quiet = false;
  int64_t runs = 0, steps = 0, prompts = 0;  // 0: the experiment's
  double theta = 0, lambda = 0, learning_rate = 0;
  std::vector<int64_t> values;
  int threads = 0;
};

void add_options(CLI::App& command, Options& o, bool sweep) {
  const std::string names =
      sweep ? "5a, 5b, 6a, 6b, 8a, 8b" : "1, 2, 3a, 3b, 4a, 4b, 5a, 5b, 6a, 6b, 7a, 7b, 8a, 8b or all";
  command.add_option("--figure", o.figures, "Figures of the paper: " + names)->required()->delimiter(',');
  command.add_option("--out", o.out, "Folder of the results")->capture_default_str();
  apps::add_number(command, "--seed", o.seed, "Seed of starts, prompts and drawn covariances",
                   apps::any_seed);
  command.add_flag("--full", o.full,
                   "Use the published numbers of prompts and runs: in context 100 x 100 prompts a step (else "
                   "30 x 30), ten runs in figures 5 and 8 (else four)");
  apps::add_number(command, "--runs", o.runs, "Number of runs (0: the figure's)", apps::Range{0, most_runs});
  apps::add_number(command, "--steps", o.steps, "Number of steps (0: the figure's)",
                   apps::Range{0, most_steps});
  apps::add_number(command, "--prompts", o.prompts,
                   "Prompts a step or, in context, covariances and prompts of each (0: the figure's)",
                   apps::Range{0, 4096});
  apps::add_number(command, "--theta", o.theta, "The spike's strength in context (0: the figure's)",
                   apps::Range{0, 1e6});
  apps::add_number(command, "--lambda", o.lambda, "Scale of the query-key matrix (0: the figure's)",
                   apps::Range{0, 1e6});
  apps::add_number(command, "--learning-rate", o.learning_rate,
                   "Learning rate of gradient descent (0: the figure's)", apps::Range{0, 1e6});
  if (sweep)
    apps::add_number(
        command, "--values", o.values,
        "Points of the sweep: L (figures 5 and 8a) or d (figures 6 and 8b) (default: the figure's)",
        apps::Range{2, most_sweep_value});
  else
    command.add_flag("--script-gradient", o.script_gradient,
                     "Also draw figure 4b with the gradient of the published script, whose last term is "
                     "twice the true one");
  apps::add_number(command, "--threads", o.threads, "CPU threads (0: all)", apps::any_threads);
  command.add_flag("--quiet", o.quiet, "No progress on stderr");
}

// The experiments of the figures with what the user set, each once.
std::vector<Experiment> experiments_of(const Options& o) {
  std::vector<Experiment> all;
  for (const Figure& figure : figures_named(o.figures))
    for (const std::string& name : figure.experiments) {
      if (name == "4b-script" && !o.script_gradient) continue;
      if (std::any_of(all.begin(), all.end(), [&](const Experiment& e) { return e.name == name; })) continue;
      Experiment e = experiment_named(name, o.full);
      Setting& s = e.setting;
      if (o.runs) s.runs = o.runs;
      if (o.steps) s.steps = o.steps;
      if (o.theta > 0 && s.in_context) s.theta = o.theta;
      if (o.lambda > 0) s.lambda = o.lambda;
      if (o.learning_rate > 0) s.learning_rate = o.learning_rate;
      if (o.prompts && s.prompts == Prompts::drawn) {
        s.per_covariance = o.prompts;
        if (s.in_context) s.covariances = o.prompts;
      }
      if (!o.values.empty()) e.values = o.values;
      all.push_back(e);
    }
  return all;
}

void check_options(const Options& o, bool sweep) {
  const std::vector<Experiment> all = experiments_of(o);
  if (o.script_gradient &&
      std::none_of(all.begin(), all.end(), [](const Experiment& e) { return e.name == "4b-script"; }))
    fail("pca", "--script-gradient is of figure 4b; add it to --figure or leave the flag out");
  const auto none = [&](const auto& is_of) {
    return std::none_of(all.begin(), all.end(), [&](const Experiment& e) { return is_of(e.setting); });
  };
  if (o.theta > 0 && none([](const Setting& s) { return s.in_context; }))
    fail("pca", "--theta is of figures in context, and none of these is");
  if (o.prompts && none([](const Setting& s) { return s.prompts == Prompts::drawn; }))
    fail("pca", "--prompts is of figures with drawn prompts, and none of these is");
  Options without_full = o;
  without_full.full = false;
  const auto same_setting = [](const Experiment& a, const Experiment& b) { return a.setting == b.setting; };
  if (o.full && std::ranges::equal(all, experiments_of(without_full), same_setting))
    fail("pca", "--full changes nothing in these figures; leave it out");
  for (const Experiment& e : all) {
    const Setting s = e.values.empty() ? e.setting : setting_at(e, e.values.back());
    const int64_t prompts = s.runs * s.covariances * s.per_covariance;
    if (s.prompts == Prompts::drawn && prompts > most_numbers / (s.length * s.dim))
      fail("pca",
           fmt::format(
               "{}: a step of {} prompts of {} tokens takes more than 1 GiB; need fewer --prompts or --runs",
               e.name, prompts, s.length));
  }
  if (!sweep) return;
  for (const Experiment& e : all)
    if (e.axis == Axis::iteration)
      fail("pca", "figure " + e.name + " is no sweep; need some of 5a, 5b, 6a, 6b, 8a, 8b, or `pca run`");
  if (o.values.size() > size_t(most_sweep_points))
    fail("pca", fmt::format("--values has {} values, need at most {}", o.values.size(), most_sweep_points));
  if (!std::is_sorted(o.values.begin(), o.values.end(), std::less_equal<>()))
    fail("pca", "--values has to rise from point to point");
}

// Whether the folder has the result already. Throws Error if it has another of this name.
bool is_there(const Options& o, const Experiment& e) {
  const std::optional<Result> r = read_result(o.out, e.name);
  if (!r) return false;
  if (r->seed != o.seed || r->experiment.setting != e.setting || r->experiment.values != e.values)
    fail("pca",
         fmt::format("{}/{}.json is of another seed or other settings; give another --out, or remove it",
                     o.out, e.name));
  return true;
}

int run_all(const Options& o, bool sweep) {
  check_options(o, sweep);
  if (o.threads) set_num_threads(o.threads);
  const std::vector<Experiment> all = experiments_of(o);
  std::error_code error;
  std::filesystem::create_directories(o.out, error);
  if (!std::filesystem::is_directory(o.out))
    fail("pca",
         "--out " + o.out + " is no folder and cannot be made one" + (error ? ": " + error.message() : ""));
  const apps::TrainingLock lock(o.out);
  remove_leftovers(o.out);
  apps::catch_stop_signals();
  std::vector<bool> there;
  for (const Experiment& e : all) there.push_back(is_there(o, e));
  for (size_t i = 0; i < all.size(); ++i) {
    const Experiment& e = all[i];
    if (there[i]) {
      apps::note("{} is in {} already\n", e.name, o.out);
      continue;
    }
    apps::Progress bar(e.name, 0, steps_of(e), {.quiet = o.quiet, .unit = "steps"});
    int64_t done = 0;
    const std::optional<Result> result = run_experiment(e, o.seed, [&](int64_t steps) {
      done += steps;
      bar.update(done, steps);
      return !apps::stop_requested();
    });
    bar.finish();
    if (!result) {
      apps::note("stopped in {}, of which nothing is kept; the same command goes on with it\n", e.name);
      return 1;
    }
    write_result(*result, o.out);
    write_page(o.out);
    const std::vector<double> ends = values_at(*result, result->cosine, result->x.back());
    apps::print("{}: {} {:.0f}, mean cosine {:.4f}, least {:.4f}, {}\n", e.name, choice_name(e.axis),
                result->x.back(), apps::mean_of(ends), *std::min_element(ends.begin(), ends.end()),
                apps::format_duration(result->seconds));
  }
  apps::print("{}/report.html\n", o.out);
  return 0;
}

int report(const std::string& folder) {
  if (!std::filesystem::is_directory(folder)) fail("report", folder + ": there is no such folder");
  write_page(folder);
  std::vector<Bar> bars;
  for (const Result& r : results_in(folder))
    for (Bar& bar : bars_of(r)) bars.push_back(std::move(bar));
  if (!bars.empty()) apps::print("{}", apps::Lines{apps::to_text(table_of(bars))});
  apps::print("{}/report.html\n", folder);
  return 0;
}

}  // namespace

int run(std::vector<std::string> args) {
  CLI::App app{
      "Studies attention that learns principal components: one layer, one trained vector, one query a prompt "
      "(Attention-based PCA, arXiv 2605.18315)"};
  app.name("pca");
  app.set_version_flag("--version", PURSUIT_VERSION);
  app.require_subcommand(1);
  int code = 0;
  Options options;
  std::string folder;
  CLI::App* run = app.add_subcommand("run",
                                     "Make figures of the paper: write NAME.csv and NAME.json of every "
                                     "experiment, and report.html with all that are in the folder");
  add_options(*run, options, false);
  run->callback([&] { code = run_all(options, false); });
  CLI::App* sweep = app.add_subcommand(
      "sweep", "Make a figure over the prompts' length or the dimension, at points of your choice");
  add_options(*sweep, options, true);
  sweep->callback([&] { code = run_all(options, true); });
  CLI::App* made =
      app.add_subcommand("report", "Write report.html of a folder's results again, and print the bars");
  made->add_option("folder", folder, "Folder that `run` wrote")->required();
  made->callback([&] { code = report(folder); });
  const int parsed = apps::parse(app, std::move(args));
  return parsed ? parsed : code;
}

}  // namespace pursuit::pca
