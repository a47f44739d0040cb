#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "apps/classify/results.h"
#include "apps/classify/run.h"
#include "apps/classify/run_record.h"
#include "apps/classify/step.h"
#include "apps/common/checks.h"
#include "apps/common/choice.h"
#include "apps/common/frost.h"
#include "apps/common/print.h"
#include "apps/common/progress.h"
#include "apps/common/signals.h"
#include "apps/common/table.h"
#include "apps/training/kept_results.h"
#include "apps/training/provenance.h"
#include "apps/training/report_parts.h"
#include "apps/training/step_memory.h"
#include "data/corruptions.h"
#include "data/fingerprint.h"
#include "engine/ops.h"
#include "nn/attacks/attacks.h"

// `classify eval`. Its results go to stdout and, for a run's folder, to eval.json (see results.h):
//   {"evaluations": [{"data", "fingerprint", "count", "weights", "step", "dtype", "options", "made_by",
//   "seed",
//                     "frost", "top1", "top5", "loss", "classes": [...], "left_out",
//                     "confusion": [true x predicted, row by row],
//                     "corrupted": [{"name", "severity", "count", "clean_top1", "top1", "top5"}],
//                     "attacked": [{"attack", "space", "budget", "count", "settings", "clean_top1", "top1",
//                                   "top5", "l2", "arguments"}]}]}
// an entry for everything that was measured alike, on the same pictures: attacks on fewer pictures than the
// rest are one of their own. The one written last is at the end. Accuracies are in [0, 1].
namespace pursuit::classify {

namespace {

std::string percent_cell(double accuracy) { return fmt::format("{:.2f}", 100 * accuracy); }

class Evaluation {
 public:
  explicit Evaluation(const EvalOptions& options) : options_(options), kept_(options.checkpoint) {}

  int run() {
    check_options();
    open();
    print_head();
    apps::catch_stop_signals();
    const bool done = clean() && corruptions() && attacks();
    if (results_.count > 0) print();
    if (data_->skipped() > 0) apps::note("{} damaged test pictures were replaced\n", data_->skipped());
    return kept_.finish(done, results_.count > 0, write_report);
  }

 private:
  void check_options() {
    corruptions_ = apps::chosen("--corruptions", options_.corruptions, data::corruption_names());
    attacks_ = apps::chosen("--attack", options_.attacks, attacks::names());
    severities_ = {options_.severities.begin(), options_.severities.end()};
    budgets_ = {options_.budgets.begin(), options_.budgets.end()};
    if (options_.attack_space != "normalised" && options_.attack_space != "pixel")
      fail("eval", "--attack-space is '" + options_.attack_space + "', need normalised or pixel");
  }

  void open() {
    run_ = apps::run_id(options_.checkpoint);  // before the weights, which another training may replace
    loaded_ = load_model(options_.checkpoint, options_.load);
    config_ = loaded_.config;
    config_.workers = options_.workers;
    config_.test_limit = options_.limit;
    config_.skip_bad = config_.skip_bad || options_.skip_bad;
    if (options_.batch_size > 0) config_.eval_batch_size = options_.batch_size;
    if (!options_.data.empty()) {
      config_.data = options_.data;
      config_.format = "auto";
      config_.test_files.clear();
    }
    if (!options_.format.empty()) config_.format = options_.format;
    if (!options_.test_files.empty()) config_.test_files = options_.test_files;

    validate(config_);
    data_ = open_data(config_, data::Split::test, options_.first);
    if (data_->size() == 0) fail("eval", "the test split is empty");
    apps::check_classes(data_->classes(), config_.classes);
    apps::require_memory("eval", device_from_name(config_.device), "--batch-size",
                         [&] { evaluate_on_shapes(*loaded_.model, config_, !attacks_.empty()); });
    if (std::count(attacks_.begin(), attacks_.end(), "spsa"))
      apps::require_memory("eval", device_from_name(config_.device), "--spsa-samples", [&] {
        attacks::spsa_on_shapes([&](const Tensor& images) { return (*loaded_.model)(images); },
                                empty({1, config_.channels, config_.image_size, config_.image_size},
                                      DType::f32, device_from_name(config_.device)),
                                options_.spsa_samples);
      });

    config_.test_split = data_->test_split();
    classes_ = data_->present_classes();
    results_ = conditions(*data_, config_.dtype, options_.limit);
    frost_ = apps::frost_overlays(options_.frost, corruptions_);
  }

  // What was asked for, as far as results depend on it; `limit` pictures were looked at (0: all).
  std::string arguments(int64_t limit) const {
    std::string text;
    const auto add = [&](bool given, const std::string& argument) {
      if (given) text += (text.empty() ? "" : " ") + argument;
    };
    add(!options_.data.empty(), "--data " + apps::quoted(options_.data));
    add(!options_.format.empty(), "--format " + options_.format);
    add(!options_.test_files.empty(),
        "--test-files " + apps::quoted(fmt::format("{}", fmt::join(options_.test_files, ","))));
    add(options_.first > 0, fmt::format("--first {}", options_.first));
    add(limit > 0, fmt::format("--limit {}", limit));
    add(!options_.load.weights.empty(), "--weights " + options_.load.weights);
    add(options_.load.dtype.has_value(), fmt::format("--dtype {}", name_of(config_.dtype)));
    add(!options_.frost.empty(), "--frost " + apps::quoted(options_.frost));
    add(options_.seed > 0, fmt::format("--seed {}", options_.seed));
    return text;
  }

  Results conditions(const data::Dataset& data, DType dtype, int64_t limit) const {
    Results r;
    r.data = describe_data(config_);
    r.fingerprint = data::fingerprint(data, config_.data);
    r.weights = loaded_.weights;
    r.step = loaded_.state.step;
    r.dtype = name_of(dtype);
    r.options = arguments(limit);
    r.made_by = apps::provenance(config_.device);
    r.run = run_;
    r.seed = options_.seed;
    if (!options_.frost.empty()) r.frost = apps::last_name(options_.frost);
    return r;
  }

  // Of the model, without those of classes that the data is not about.
  Tensor logits(const Tensor& images) const { return restricted((*loaded_.model)(images), classes_); }
  Score score(const Config& config, data::Loader& loader, const Change& change,
              const std::function<void(int64_t)>& tick) const {
    return evaluate([&](const Tensor& images) { return logits(images); }, config, loader, change, tick);
  }

  void print_head() const {
    if (options_.quiet) return;
    apps::note("pursuit {} on {}, {}\n", PURSUIT_VERSION, describe(device_from_name(config_.device)),
               name_of(config_.dtype));
    apps::note("model  {}: {} attention, step {}{}\n", loaded_.name, config_.attention, loaded_.state.step,
               loaded_.weights == "ema" ? ", averaged weights" : "");
    apps::note("data   {}: {} pictures, {} classes\n",
               config_.data.empty() ? "built-in shapes" : config_.data, data_->size(), classes_.size());
    if (classes_.size() < config_.classes.size()) apps::note("note   {}\n", left_out());
  }

  std::string left_out() const {
    return fmt::format("the data has {} of the model's {} classes; the logits of the others are left out",
                       classes_.size(), config_.classes.size());
  }

  void save(const Results& results) {
    kept_.add([&](const std::string& folder) { merge_results(folder, results); });
  }

  bool clean() {
    apps::Progress bar("clean", 0, data_->size(), {.quiet = options_.quiet});
    data::Loader loader(*data_, evaluation_transform(config_), evaluation_loader_options(config_));
    const Score found = score(config_, loader, {}, ticker(bar, 0, ""));
    if (apps::stop_requested()) return false;
    results_.set_score(found, config_.classes, classes_);
    save(results_);
    return true;
  }

  // Reports the pictures of one evaluation to a bar over several of them.
  static std::function<void(int64_t)> ticker(apps::Progress& bar, int64_t before, const std::string& note) {
    return [&bar, before, note, last = int64_t(0)](int64_t done) mutable {
      bar.update(before + done, done - last, note);
      last = done;
    };
  }

  bool corruptions() {
    const int64_t views = int64_t(corruptions_.size() * severities_.size());
    apps::Progress bar("corruptions", 0, views * data_->size(), {.quiet = options_.quiet || views == 0});
    int64_t done = 0;
    for (const std::string& name : corruptions_) {
      for (const int severity : severities_) {
        data::Loader loader(*data_, evaluation_transform(config_, corruption(name, severity)),
                            evaluation_loader_options(config_));
        const Score found =
            score(config_, loader, {}, ticker(bar, done, fmt::format("{} {}", name, severity)));
        if (apps::stop_requested()) return false;
        done += data_->size();
        results_.corrupted.push_back({name, severity, found.accuracy(), found.accuracy5()});
        save(results_);
      }
    }
    return true;
  }

  std::function<data::Image(const data::Image&, const data::Sample&)> corruption(const std::string& name,
                                                                                 int severity) const {
    return [this, name, severity](const data::Image& image, const data::Sample& sample) {
      return data::corrupt(image, name, severity,
                           data::corruption_seed(options_.seed, name, severity, sample.index), frost_);
    };
  }

  attacks::Settings settings(const std::string& name) const {
    attacks::Settings s;
    s.name = name;
    s.pixel = options_.attack_space == "pixel";
    s.mean = config_.mean;
    s.std = config_.std;
    s.spsa.steps = options_.spsa_steps;
    s.spsa.samples = options_.spsa_samples;
    s.seed = options_.seed;
    return s;
  }

  // What was asked for beside attack, space and budget.
  static std::string attack_arguments(const attacks::Settings& s) {
    const attacks::SpsaOptions usual;
    if (s.name != "spsa" || (s.spsa.steps == usual.steps && s.spsa.samples == usual.samples)) return "";
    return fmt::format("--spsa-steps {} --spsa-samples {}", s.spsa.steps, s.spsa.samples);
  }

  bool attacks() {
    if (attacks_.empty()) return true;
    // Budgets of 1/255 get lost in bf16.
    Config config = config_;
    config.dtype = DType::f32;
    std::unique_ptr<data::Dataset> fewer;
    if (options_.attack_limit > 0 && options_.attack_limit < data_->size()) {
      config.test_limit = options_.attack_limit;
      fewer = open_data(config, data::Split::test, options_.first);
    }
    const data::Dataset& data = fewer ? *fewer : *data_;
    int64_t runs = fewer || config_.dtype != DType::f32 ? 1 : 0;
    for (const std::string& name : attacks_)
      runs += attacks::has_budgets(name) ? int64_t(budgets_.size()) : 1;
    apps::Progress bar("attacks", 0, runs * data.size(), {.quiet = options_.quiet});
    int64_t done = 0;
    const int64_t limit = fewer ? options_.attack_limit : options_.limit;
    if (fewer || config_.dtype != DType::f32) {
      // Other conditions than those of the rest; the same pictures without attack are measured too.
      attacked_on_ = conditions(data, DType::f32, limit);
      data::Loader loader(data, evaluation_transform(config), evaluation_loader_options(config));
      const Score found = score(config, loader, {}, ticker(bar, 0, "clean"));
      if (apps::stop_requested()) return false;
      attacked_on_->set_score(found, config_.classes, classes_);
      done += data.size();
    }
    for (const std::string& name : attacks_) {
      attacks::Settings s = settings(name);
      const std::set<double> budgets =
          attacks::has_budgets(name) ? budgets_ : std::set<double>{attacks::fixed_budget(s)};
      for (const double budget : budgets) {
        s.budget = budget;
        if (!attack_all(s, config, data, bar, done)) return false;
        done += data.size();
        save(attacked());
      }
    }
    return true;
  }

  bool attack_all(const attacks::Settings& s, Config config, const data::Dataset& data, apps::Progress& bar,
                  int64_t done) {
    if (s.name == "spsa")
      config.eval_batch_size = 1;  // it works picture by picture, and can be stopped between them
    data::Loader loader(data, evaluation_transform(config), evaluation_loader_options(config));
    const attacks::Logits victim = [&](const Tensor& images) { return logits(images); };
    double length = 0;
    const Change change = [&](const Tensor& images, const Tensor& labels,
                              const std::vector<int64_t>& pictures) {
      const Tensor attacked = attacks::attack(victim, images, labels, s, pictures);
      length += attacks::perturbation_length(images, attacked, s);
      return attacked;
    };
    const std::string note =
        attacks::has_budgets(s.name) ? fmt::format("{} {}/255", s.name, s.budget) : s.name;
    const Score found = score(config, loader, change, ticker(bar, done, note));
    if (apps::stop_requested()) return false;
    attacked().attacked.push_back({s.name, options_.attack_space, s.budget, attacks::describe(s),
                                   found.accuracy(), found.accuracy5(), length / double(found.count()),
                                   attack_arguments(s)});
    return true;
  }

  void print() const {
    if (options_.json) {
      nlohmann::ordered_json json = to_json(results_);
      if (attacked_on_) json["attacked"] = to_json(*attacked_on_)["attacked"];
      if (const auto mean = mean_corrupted_top1(results_)) json["corrupted_top1"] = *mean;
      if (const auto error = mean_corruption_error(results_))
        json[error->relative ? "mce" : "mean_corruption_error"] = error->value;
      apps::print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
      return;
    }
    apps::print("{}: top-1 {} %, top-5 {} %, loss {:.4f} on {} pictures\n", results_.data,
                percent_cell(results_.top1), percent_cell(results_.top5), results_.loss, results_.count);
    if (!results_.corrupted.empty()) print_corruptions();
    if (classes_.size() < config_.classes.size()) apps::print("{}\n", left_out());
    if (!attacked().attacked.empty()) print_attacks();
  }

  void print_corruptions() const {
    apps::Table table{{"corruption"}, {}};
    for (const int s : severities_) table.columns.push_back(fmt::format("severity {}", s));
    const auto mean_error = mean_corruption_error(results_);
    const std::vector<CorruptionSummary> summaries = summarise(results_);
    const bool relative = summaries[0].ce.has_value();
    for (const char* column : {"mean top-1", "mean top-5", relative ? "CE" : "mean error"})
      table.columns.push_back(column);
    for (const CorruptionSummary& summary : summaries) {
      table.rows.push_back({summary.name});
      std::vector<std::string>& row = table.rows.back();
      for (const auto& c : results_.corrupted)
        if (c.name == summary.name) row.push_back(percent_cell(c.top1));
      row.resize(1 + severities_.size(), "-");
      row.insert(row.end(), {percent_cell(summary.top1), percent_cell(summary.top5),
                             summary.ce      ? percent_cell(*summary.ce)
                             : summary.error ? percent_cell(*summary.error)
                                             : "-"});
    }
    apps::print("\n{}", apps::Lines{apps::to_text(table)});
    apps::print("mean top-1 {} %", percent_cell(*mean_corrupted_top1(results_)));
    if (!mean_error)
      apps::print("; the mean corruption error needs all 15 corruptions at all five severities\n");
    else if (mean_error->relative)
      apps::print(", mCE {} (errors relative to AlexNet on ImageNet-C)\n", percent_cell(mean_error->value));
    else
      apps::print(", mean corruption error {} % (mCE, relative to AlexNet, is for ImageNet's 1000 classes)\n",
                  percent_cell(mean_error->value));
  }

  void print_attacks() const {
    const bool pixel = options_.attack_space == "pixel";
    const Results& r = attacked();
    apps::Table table{{"attack", "budget", "top-1", "top-5", "mean l2", "pictures"}, {}};
    const auto add = [&](const Results::Attacked& a) {
      table.rows.push_back({a.attack, budget_text(a.attack, a.budget), percent_cell(a.top1),
                            percent_cell(a.top5), fmt::format("{:.3f}", a.l2), std::to_string(r.count)});
    };
    add({"none", "", 0, "", r.top1, r.top5, 0});
    for (const Results::Attacked& a : r.attacked) add(a);
    apps::print("\nattacks on {}\n{}",
                pixel ? "pixels, clipped to [0, 1], away from the true labels"
                      : "normalised pictures, not clipped, away from the model's own predictions",
                apps::Lines{apps::to_text(table)});
  }

  Results& attacked() { return attacked_on_ ? *attacked_on_ : results_; }
  const Results& attacked() const { return attacked_on_ ? *attacked_on_ : results_; }

  const EvalOptions& options_;
  apps::KeptResults kept_;
  std::vector<std::string> corruptions_, attacks_;
  std::set<int> severities_;
  std::set<double> budgets_;
  std::string run_;
  LoadedModel loaded_;
  Config config_;
  std::unique_ptr<data::Dataset> data_;
  std::vector<data::Image> frost_;
  std::vector<int64_t> classes_;  // of the model that the data is about
  Results results_;
  std::optional<Results> attacked_on_;  // attacks and the clean score of their pictures, unless in results_
};

}  // namespace

int eval(const EvalOptions& options) { return Evaluation(options).run(); }

}  // namespace pursuit::classify
