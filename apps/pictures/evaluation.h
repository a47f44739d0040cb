#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/command/choice.h"
#include "apps/pictures/corrupted.h"
#include "apps/pictures/frost.h"
#include "apps/study/evaluation.h"
#include "apps/terminal/progress.h"
#include "data/corrupted_set.h"
#include "data/image.h"
#include "engine/program/describe.h"

namespace CLI {
class App;
}

namespace pursuit::apps {

struct PictureEvalOptions : EvalOptions {
  std::string format;
  std::vector<std::string> corruptions;  // "all" or names
  std::vector<int> severities;           // empty: 1 to 5
  std::string frost;                     // folder of overlays
  int64_t first = 0;                     // evaluate only the first pictures; 0: all
  uint64_t seed = 0;
  bool skip_bad = false;

  // The options that results depend on, as on a command line, with --limit `looked_at` (0: all pictures).
  std::string arguments(int64_t looked_at) const;
};

// Adds --data and --format of `eval`; `formats` is the formats' help text.
void add_data_options(CLI::App& command, std::string& data, std::string& format, const std::string& formats);
// Adds the options of `eval` of an app on pictures.
void add_picture_eval_options(CLI::App& command, PictureEvalOptions& options, const std::string& formats,
                              const LoadChoices& choices = {});

// Changes a picture before all other processing; `number` is its index in the data set.
using PictureChange = std::function<data::Image(const data::Image& picture, int64_t number)>;

// One call of `eval` of an app on pictures: scores on clean and corrupted pictures.
template <class Record, class DataSet> class PictureEvaluation : public Evaluation<Record> {
 public:
  using Results = typename Record::Results;
  using Scores = typename Results::Scores;

  explicit PictureEvaluation(const PictureEvalOptions& options)
      : Evaluation<Record>(options),
        severities_(options.severities.begin(), options.severities.end()),
        options_(options),
        corruptions_(chosen("--corruptions", options.corruptions, data::corruption_names())) {
    if (severities_.empty()) severities_ = {1, 2, 3, 4, 5};
  }

 protected:
  using Evaluation<Record>::config_, Evaluation<Record>::loaded_;

  // The parts of config_'s data if it is published corrupted, else empty.
  virtual std::vector<data::CorruptedPart> parts() const = 0;
  // Opens config_'s data, of such a set one part.
  virtual std::unique_ptr<DataSet> opened(const data::CorruptedPart& part) const = 0;
  // Completes config_, opens data_ by first_part(), checks that the model can be scored on it and sets the
  // conditions of results_. Of a set that is published corrupted these are the first part's.
  virtual void open_data() = 0;
  virtual std::string data_line() const = 0;                      // describes the data, for stderr
  virtual std::string skipped_are() const { return "left out"; }  // fate of damaged pictures (--skip-bad)
  // Scores all pictures after a change. Returns empty if a stop was requested.
  virtual std::optional<Scores> score(const PictureChange& change, const Tick& tick) = 0;
  // Scores the clean pictures into results_. Returns false if a stop was requested.
  virtual bool clean() = 0;
  // The app's further measurements. Returns false if a stop was requested.
  virtual bool more() { return true; }
  nlohmann::ordered_json json() const override { return to_json(results_); }

  // Results with their conditions, except the data's name and fingerprint.
  Results measured_on(DType dtype, int64_t looked_at) const {
    Results r = this->measured();
    r.dtype = name_of(dtype);
    r.options = options_.arguments(looked_at);
    r.seed = options_.seed;
    if (!options_.frost.empty()) r.frost = last_name(options_.frost);
    if (published_corrupted()) r.frost = "published";
    return r;
  }

  bool published_corrupted() const { return !parts_.empty(); }
  std::unique_ptr<DataSet> first_part() {
    parts_ = parts();
    return opened(parts_.empty() ? data::CorruptedPart{} : parts_.front());
  }

  std::set<int> severities_;
  std::unique_ptr<DataSet> data_;
  Results results_;

 private:
  void open() override {
    config_.limit = config_.test_limit = options_.limit;
    config_.skip_bad = config_.skip_bad || options_.skip_bad;
    if (!options_.data.empty()) config_.format = "auto";
    if (!options_.format.empty()) config_.format = options_.format;
    open_data();
    choose_views();
    if (published_corrupted())
      results_.count = data_->size();
    else
      frost_ = frost_overlays(options_.frost, corruptions_);
    if (options_.quiet) return;
    note("pursuit {} on {}, {}\n", PURSUIT_VERSION, pursuit::describe(device_from_name(config_.device)),
         name_of(config_.dtype));
    note("model  {}: {}, step {}{}\n", loaded_.name, describe_attention(config_), loaded_.state.step,
         loaded_.weights == "ema" ? ", averaged weights" : "");
    note("data   {}\n", data_line());
  }

  bool measure() override {
    const bool done = (published_corrupted() || clean()) && under_corruptions() && more();
    skipped_ += data_->skipped();
    if (skipped_ > 0) note("{} damaged pictures were {}\n", skipped_, skipped_are());
    return done;
  }

  // The corruptions and severities to evaluate; of a set that is published corrupted, those that it has.
  void choose_views() {
    if (!options_.frost.empty() && (published_corrupted() || corruptions_.empty()))
      fail("eval",
           "--frost holds overlays for corruptions that are drawn here: give --corruptions, or leave it out");
    if (!options_.severities.empty() && !published_corrupted() && corruptions_.empty())
      fail("eval", "--severities has no effect without --corruptions; give both, or leave it out");
    if (published_corrupted() && corruptions_.empty()) corruptions_ = data::corruption_names();
    std::vector<std::string> missing;
    for (const std::string& name : corruptions_)
      for (const int severity : severities_) {
        const data::CorruptedPart view{name, severity};
        const bool has = !published_corrupted() || std::count(parts_.begin(), parts_.end(), view) > 0;
        if (has)
          views_.push_back(view);
        else
          missing.push_back(view.folder());
      }
    if (missing.empty()) return;
    const std::string lacks = fmt::format(
        "{} lacks {}{}", config_.data,
        fmt::join(missing.begin(), missing.begin() + std::min<int64_t>(5, int64_t(missing.size())), ", "),
        missing.size() > 5 ? fmt::format(" and {} more", missing.size() - 5) : "");
    if (views_.empty()) fail("eval", lacks + ", and so all that is to be evaluated");
    note("note: {}; they are left out\n", lacks);
  }

  // Replaces data_ by another part of the set, which must have as many pictures, with the same labels.
  void open_part(const data::CorruptedPart& part) {
    std::unique_ptr<DataSet> next = opened(part);
    const auto differs = [&](const std::string& how) {
      fail("eval",
           fmt::format("{}: {} {}; every part needs the same pictures", config_.data, part.folder(), how));
    };
    if (next->size() != data_->size())
      differs(
          fmt::format("has {} pictures, {} has {}", next->size(), parts_.front().folder(), data_->size()));
    if constexpr (requires { next->label(0); })
      for (int64_t i = 0; i < next->size(); ++i)
        if (next->label(i) != data_->label(i))
          differs(fmt::format("has other labels than {}, first that of {}", parts_.front().folder(),
                              next->name(i)));
    skipped_ += data_->skipped();
    data_ = std::move(next);
  }

  bool under_corruptions() {
    const int64_t each = data_->size();
    if (views_.empty()) return true;
    Progress bar("corruptions", 0, int64_t(views_.size()) * each, {.quiet = options_.quiet});
    int64_t before = 0;
    for (const auto& view : views_) {
      const auto& [name, severity] = view;
      PictureChange change;
      if (published_corrupted())
        open_part(view);
      else
        change = [&](const data::Image& picture, int64_t number) {
          return data::corrupt(picture, view.corruption, view.severity,
                               data::corruption_seed(options_.seed, view.corruption, view.severity, number),
                               frost_);
        };
      const auto found = score(change, ticker(bar, before, fmt::format("{} {}", name, severity)));
      if (!found) return false;
      before += each;
      results_.corrupted.push_back({name, severity, *found});
      this->keep(results_);
    }
    return true;
  }

  const PictureEvalOptions& options_;
  std::vector<std::string> corruptions_;
  std::vector<data::CorruptedPart> parts_;  // of data that is published corrupted
  std::vector<data::CorruptedPart> views_;  // to be evaluated
  std::vector<data::Image> frost_;
  int64_t skipped_ = 0;
};

}  // namespace pursuit::apps
