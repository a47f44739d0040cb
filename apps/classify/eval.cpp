#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "apps/classify/attack_record.h"
#include "apps/classify/attack_runs.h"
#include "apps/classify/commands.h"
#include "apps/classify/outliers.h"
#include "apps/classify/pipeline.h"
#include "apps/classify/results.h"
#include "apps/classify/surrogate.h"
#include "apps/command/checks.h"
#include "apps/pictures/evaluation.h"
#include "apps/study/reproduce.h"
#include "apps/study/run_commands.h"
#include "apps/terminal/table.h"
#include "apps/training/step_memory.h"
#include "data/class_names.h"
#include "data/fingerprint.h"
#include "engine/ops.h"

// `classify eval` writes its results to stdout and, for a run's folder, to eval.json (see results.h):
//   {"evaluations": [{"data", "fingerprint", "count", "weights", "step", "dtype", "options",
//                     "made_by", "run", "seed", "frost", "top1", "top5", "loss", "ece", "classes": [...],
//                     "left_out", "confusion": [true x predicted, row by row],
//                     "calibration": [{"count", "correct", "confidence"} of 15 bins, see nn/calibration.h],
//                     "corrupted": [{"name", "severity", "count", "clean_top1", "top1", "top5", "loss",
//                                    "ece"}],
//                     "attacked": [{"attack", "space", "budget", "count", "settings", "clean_top1", "top1",
//                                   "top5", "l2", "arguments", "steps", "surrogate",
//                                   "surrogate_attention"}],
//                     "outliers": [{"data", "fingerprint", "count", "inliers", "classes", "aupr_probability",
//                                   "aupr_energy", "arguments"}]}]}
// An entry holds the results of one set of pictures and conditions; attacks on fewer pictures have their own.
// The newest entry is last. Accuracies are in [0, 1].
namespace pursuit::classify {

namespace {

std::string percent_cell(double accuracy) { return fmt::format("{:.2f}", 100 * accuracy); }

class Evaluation : public apps::PictureEvaluation<RunRecord, data::Dataset> {
 public:
  explicit Evaluation(const EvalOptions& options) : PictureEvaluation(options), options_(options) {}

 private:
  std::vector<data::CorruptedPart> parts() const override {
    return data::DatasetFormats::parts("eval", config_.data, config_.format);
  }

  std::unique_ptr<data::Dataset> opened(const data::CorruptedPart& part) const override {
    return classify::open_data(config_, options_.split, options_.first, part);
  }

  void open_data() override {
    name_classes();
    config_.workers = options_.workers;
    config_.limit = loaded_.config.limit;  // the held-out pictures are of those trained on
    if (!options_.data.empty()) forget_files(config_, options_.split);
    if (!options_.test_files.empty()) config_.test_files = options_.test_files;
    validate(config_);
    data_ = first_part();
    if (data_->size() == 0) fail("eval", "the split is empty");
    attacks_ = attack_runs(options_, config_);
    for (const auto& [option, given] :
         {std::pair{"--attack", !attacks_.empty()}, {"--outliers", !options_.outliers.empty()}})
      if (given && published_corrupted())
        fail("eval",
             fmt::format("{} needs clean pictures, but those of {} are corrupted", option, config_.data));
    apps::check_classes(data_->classes(), config_.classes);
    if (!options_.attacked_by.empty()) {
      if (attacks_.empty())
        fail("eval", "--attacked-by is the model that --attack attacks; give --attack too");
      if (options_.masking_check)
        fail("eval", "--masking-check is about the gradient of the evaluated model; leave --attacked-by out");
      surrogate_.emplace(options_.attacked_by, options_.load, config_);
    }
    if (!options_.attack_records.empty()) apps::prepare_output(options_.attack_records);
    const Device device = device_from_name(config_.device);
    const Model& attacked_model = surrogate_ ? surrogate_->model() : *loaded_.model;
    apps::require_memory("eval", device, "--batch-size", [&] {
      if (surrogate_) evaluate_on_shapes(*loaded_.model, config_, false);
      evaluate_on_shapes(attacked_model, config_, !attacks_.empty());
    });
    for (const attacks::Settings& s : attacks_)
      if (const attacks::AttackInfo& info = attacks::info_of(s.name); info.on_shapes)
        apps::require_memory("eval", device, fmt::format("--{}-{}", s.name, info.traits.memory_option), [&] {
          info.on_shapes(
              [&](const Tensor& images) { return attacked_model(images); },
              empty({1, config_.channels, config_.image_size, config_.image_size}, DType::f32, device),
              s.options);
        });
    config_.test_split = split_name(*data_, options_.split);
    classes_ = data_->present_classes();
    if (!attacks_.empty() && classes_.size() < 2)
      fail("eval", fmt::format("{} has pictures of one class only, and an attack needs two or more",
                               describe_data(config_)));
    for (attacks::Settings& s : attacks_) s.classes = int64_t(classes_.size());
    results_ = conditions_on(*data_, config_.dtype, options_.limit);
    results_.set_classes(config_.classes, classes_);
  }

  // Gives the model's classes the names of --classes.
  void name_classes() {
    if (options_.classes.empty()) return;
    std::vector<std::string> names = data::read_classes(options_.classes);
    if (names.size() != config_.classes.size())
      fail("eval", fmt::format("--classes {} names {} classes, the model has {}", options_.classes,
                               names.size(), config_.classes.size()));
    config_.classes = std::move(names);
  }

  Results conditions_on(const data::Dataset& data, DType dtype, int64_t looked_at) const {
    Results r = measured_on(dtype, looked_at);
    r.data = describe_data(config_);
    r.fingerprint = data::fingerprint(data, config_.data);
    if (options_.split == data::Split::val) r.options += " --split val";
    if (!options_.test_files.empty())
      r.options += " --test-files " + apps::quoted(fmt::format("{}", fmt::join(options_.test_files, ",")));
    if (!options_.classes.empty()) r.options += " --classes " + apps::quoted(options_.classes);
    return r;
  }

  std::string data_line() const override {
    return fmt::format("{}: {} pictures, {} classes{}",
                       config_.data.empty() ? "built-in shapes" : config_.data, data_->size(),
                       classes_.size(), classes_.size() < config_.classes.size() ? "; " + left_out() : "");
  }
  std::string skipped_are() const override { return "replaced"; }

  std::string left_out() const {
    return fmt::format("the data has {} of the model's {} classes; the logits of the others are left out",
                       classes_.size(), config_.classes.size());
  }

  Tensor logits(const Tensor& images) const { return restricted((*loaded_.model)(images), classes_); }

  // Empty if a stop was requested.
  std::optional<Totals> totals_of(const data::Dataset& data, const Config& config,
                                  const apps::PictureChange& change, const Change& attack,
                                  const apps::Tick& tick) const {
    data::Loader loader(data, evaluation_transform(config, change), evaluation_loader_options(config));
    Totals found =
        evaluate([&](const Tensor& images) { return logits(images); }, config, loader, attack, tick);
    if (apps::stop_requested()) return std::nullopt;
    require_read(found, data.size());
    return found;
  }

  std::optional<Scores> score(const apps::PictureChange& change, const apps::Tick& tick) override {
    const auto found = totals_of(*data_, config_, change, {}, tick);
    if (!found) return std::nullopt;
    return scores_of(*found);
  }

  bool clean() override {
    apps::Progress bar("clean", 0, data_->size(), {.quiet = options_.quiet});
    const auto found = totals_of(*data_, config_, {}, {}, apps::ticker(bar, 0, ""));
    if (!found) return false;
    results_.set_scores(*found, config_.classes, classes_);
    keep(results_);
    return true;
  }

  bool more() override { return against_outliers() && under_attacks(); }

  std::optional<Strangeness> strangeness(const data::Dataset& data, const Config& config,
                                         const std::vector<int64_t>& classes, const apps::Tick& tick) const {
    data::Loader loader(data, evaluation_transform(config), evaluation_loader_options(config));
    Strangeness found;
    const attacks::Logits watched = [&](const Tensor& images) {
      const Tensor of_classes = restricted((*loaded_.model)(images).to(DType::f32), classes);
      found.add(of_classes);
      return of_classes;
    };
    const Totals totals = evaluate(watched, config, loader, {}, tick);
    if (apps::stop_requested()) return std::nullopt;
    require_read(totals, data.size());
    return found;
  }

  // The outliers' folders are classes, as in ImageNet-O: the model is to choose among these, and the data's
  // pictures of them are the inliers.
  bool against_outliers() {
    if (options_.outliers.empty()) return true;
    Config config = config_;
    config.data = options_.outliers;
    config.format = "auto";
    forget_files(config, data::Split::test);
    const auto outliers = classify::open_data(config, data::Split::test);
    apps::check_classes(outliers->classes(), config_.classes);
    const std::vector<int64_t> classes = outliers->present_classes();
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < data_->size(); ++i)
      if (std::count(classes.begin(), classes.end(), data_->label(i))) numbers.push_back(i);
    if (numbers.empty())
      fail("eval", fmt::format("the data has no picture of the {} classes of --outliers {}; both are needed",
                               classes.size(), options_.outliers));
    const auto inliers = data::subset(opened({}), numbers);
    apps::Progress bar("outliers", 0, inliers->size() + outliers->size(), {.quiet = options_.quiet});
    const auto normal = strangeness(*inliers, config_, classes, apps::ticker(bar, 0, "data"));
    if (!normal) return false;
    const auto strange = strangeness(*outliers, config, classes, apps::ticker(bar, inliers->size(), ""));
    if (!strange) return false;
    Results::Outliers found = detection(*normal, *strange);
    found.data = apps::last_name(options_.outliers);
    found.fingerprint = data::fingerprint(*outliers, options_.outliers);
    found.classes = int64_t(classes.size());
    found.arguments = "--outliers " + apps::quoted(options_.outliers);
    results_.outliers.push_back(found);
    keep(results_);
    return true;
  }

  // They run in f32: a budget of 1/255 is below the precision of bf16.
  bool under_attacks() {
    if (attacks_.empty()) return true;
    Config config = config_;
    config.dtype = DType::f32;
    std::unique_ptr<data::Dataset> fewer;
    if (options_.attack_limit > 0 && options_.attack_limit < data_->size()) {
      config.test_limit = options_.attack_limit;
      fewer = classify::open_data(config, options_.split, options_.first);
    }
    const data::Dataset& data = fewer ? *fewer : *data_;
    const bool unlike = fewer || config_.dtype != DType::f32;  // than in results_
    const int64_t runs = int64_t(attacks_.size()) + (unlike ? 1 : 0);
    apps::Progress bar("attacks", 0, runs * data.size(), {.quiet = options_.quiet});
    int64_t done = 0;
    if (unlike) {
      // The clean accuracy is measured under the same conditions.
      attacked_on_ = conditions_on(data, DType::f32, fewer ? options_.attack_limit : options_.limit);
      const auto found = totals_of(data, config, {}, {}, apps::ticker(bar, 0, "clean"));
      if (!found) return false;
      attacked_on_->set_scores(*found, config_.classes, classes_);
      done += data.size();
    }
    for (const attacks::Settings& s : attacks_) {
      if (!attack_all(s, config, data, bar, done)) return false;
      done += data.size();
      keep(attacked());
    }
    return true;
  }

  bool attack_all(const attacks::Settings& s, Config config, const data::Dataset& data, apps::Progress& bar,
                  int64_t done) {
    if (attacks::info_of(s.name).traits.one_at_a_time) config.eval_batch_size = 1;
    AttackRecord record(s);
    struct Stopped {};
    const attacks::Logits victim = [&](const Tensor& images) {
      if (apps::stop_requested()) throw Stopped();
      record.count(images);
      return logits_of(classes_, surrogate_ ? (*surrogate_)(images) : (*loaded_.model)(images));
    };
    const Change attack = [&](const Tensor& images, const Tensor& labels,
                              const std::vector<int64_t>& pictures) {
      const Tensor changed = attacks::attack(victim, images, labels_among(classes_, labels), s, pictures);
      record.add(images, changed, labels, pictures, [&](const Tensor& x) { return logits(x); });
      return changed;
    };
    const std::string note =
        attacks::info_of(s.name).traits.norm ? s.name + " " + budget_text(s.name, s.budget) : s.name;
    std::optional<Totals> found;
    try {
      found = totals_of(data, config, {}, attack, apps::ticker(bar, done, note));
    } catch (const Stopped&) {
    }
    if (!found) return false;
    Results::Attacked result{s.name,
                             choice_name(options_.attack_space),
                             s.budget,
                             s.describe(),
                             found->accuracy(),
                             found->accuracy5(),
                             record.mean_l2(),
                             s.arguments()};
    const nn::OptionValues all = attacks::info_of(s.name).complete(s.options);
    if (const auto steps = all.find("steps"); steps != all.end())
      if (const auto* const count = std::get_if<int64_t>(&steps->second)) result.steps = *count;
    if (surrogate_) {
      result.surrogate = surrogate_->name();
      result.surrogate_attention = surrogate_->attention();
      result.arguments += (result.arguments.empty() ? "" : " ") + std::string("--attacked-by ") +
                          apps::quoted(options_.attacked_by);
    }
    attacked().attacked.push_back(std::move(result));
    if (!options_.attack_records.empty())
      record.append_to(options_.attack_records, options_.checkpoint, options_.attacked_by);
    return true;
  }

  nlohmann::ordered_json json() const override {
    nlohmann::ordered_json json = to_json(results_);
    if (attacked_on_) json["attacked"] = to_json(*attacked_on_)["attacked"];
    if (const auto mean = mean_corrupted_top1(results_)) json["corrupted_top1"] = *mean;
    if (const auto error = mean_corruption_error(results_))
      json[error->relative ? "mce" : "mean_corruption_error"] = error->value;
    return json;
  }

  void print() const override {
    const Scores& s = results_.scores;
    if (!published_corrupted())
      apps::print("{}: top-1 {} %, top-5 {} %, loss {:.4f}, ECE {} % on {} pictures\n", results_.data,
                  percent_cell(s.top1), percent_cell(s.top5), s.loss, percent_cell(s.ece), results_.count);
    if (!results_.corrupted.empty()) print_corruptions();
    if (classes_.size() < config_.classes.size()) apps::print("{}\n", left_out());
    if (!results_.outliers.empty()) apps::print("\n{}", apps::Lines{apps::to_text(outlier_table(results_))});
    if (!attacked().attacked.empty()) print_attacks();
  }

  void print_corruptions() const {
    apps::Table table =
        apps::corruption_table(results_.corrupted, [](const Scores& s) { return percent_cell(s.top1); });
    const auto mean_error = mean_corruption_error(results_);
    const std::vector<CorruptionSummary> summaries = summarise(results_);
    const bool relative = summaries[0].ce.has_value();
    for (const char* column : {"mean top-1", "mean top-5", relative ? "CE" : "mean error"})
      table.columns.push_back(column);
    for (size_t i = 0; i < summaries.size(); ++i) {
      const CorruptionSummary& s = summaries[i];
      const std::optional<double> error = s.ce ? s.ce : s.error;
      for (const std::string& cell :
           {percent_cell(s.top1), percent_cell(s.top5), error ? percent_cell(*error) : "-"})
        table.rows[i].push_back(cell);
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
    const Results& r = attacked();
    apps::Table table{{"attack", "budget", "top-1", "top-5", "mean l2", "pictures", "how"}, {}};
    const auto add = [&](const Results::Attacked& a) {
      table.rows.push_back({attack_title(a), budget_text(a.attack, a.budget), percent_cell(a.top1),
                            percent_cell(a.top5), fmt::format("{:.3f}", a.l2), std::to_string(r.count),
                            a.settings});
    };
    add({"none", "", 0, "", r.scores.top1, r.scores.top5, 0});
    for (const Results::Attacked& a : r.attacked) add(a);
    apps::print("\nattacks on {}\n{}",
                options_.attack_space == AttackSpace::pixel
                    ? "pixels, clipped to [0, 1], away from the true labels"
                    : "normalised pictures, not clipped, away from the model's own predictions",
                apps::Lines{apps::to_text(table)});
    const std::vector<std::string> notes = masking_notes(r);
    for (const std::string& note : notes) apps::print("{}\n", note);
    if (options_.masking_check && notes.empty())
      apps::print(
          "no sign of a hidden gradient: Square, more steps and the whole range of pixels do as they "
          "should\n");
  }

  Results& attacked() { return attacked_on_ ? *attacked_on_ : results_; }
  const Results& attacked() const { return attacked_on_ ? *attacked_on_ : results_; }

  const EvalOptions& options_;
  std::vector<attacks::Settings> attacks_;
  std::optional<Surrogate> surrogate_;  // of --attacked-by
  std::vector<int64_t> classes_;        // the model's classes that occur in the data
  std::optional<Results> attacked_on_;  // attacks under other conditions than results_, with clean scores
};

}  // namespace

int eval(const EvalOptions& options) { return Evaluation(options).run(); }

}  // namespace pursuit::classify
