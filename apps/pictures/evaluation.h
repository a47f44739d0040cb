#pragma once
#include <fmt/format.h>

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
#include "data/image.h"
#include "engine/program/describe.h"

namespace CLI {
class App;
}

namespace pursuit::apps {

struct PictureEvalOptions : EvalOptions {
  std::string format;
  std::vector<std::string> corruptions;  // "all" or names
  std::vector<int> severities = {1, 2, 3, 4, 5};
  std::string frost;  // folder of overlays
  int64_t first = 0;  // evaluate only the first pictures; 0: all
  uint64_t seed = 0;
  bool skip_bad = false;

  // The options that results depend on, as on a command line, with --limit `looked_at` (0: all pictures).
  std::string arguments(int64_t looked_at) const;
};

void add_picture_eval_options(CLI::App& command, PictureEvalOptions& options);

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
        corruptions_(chosen("--corruptions", options.corruptions, data::corruption_names())) {}

 protected:
  using Evaluation<Record>::config_, Evaluation<Record>::loaded_;

  // Opens data_ with config_, checks that the model can be scored on it and sets the conditions of results_.
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
    return r;
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
    frost_ = frost_overlays(options_.frost, corruptions_);
    if (options_.quiet) return;
    note("pursuit {} on {}, {}\n", PURSUIT_VERSION, pursuit::describe(device_from_name(config_.device)),
         name_of(config_.dtype));
    note("model  {}: {}, step {}{}\n", loaded_.name, describe_attention(config_), loaded_.state.step,
         loaded_.weights == "ema" ? ", averaged weights" : "");
    note("data   {}\n", data_line());
  }

  bool measure() override {
    const bool done = clean() && under_corruptions() && more();
    if (data_->skipped() > 0) note("{} damaged pictures were {}\n", data_->skipped(), skipped_are());
    return done;
  }

  bool under_corruptions() {
    const int64_t each = data_->size(), views = int64_t(corruptions_.size() * severities_.size());
    if (views == 0) return true;
    Progress bar("corruptions", 0, views * each, {.quiet = options_.quiet});
    int64_t before = 0;
    for (const std::string& name : corruptions_)
      for (const int severity : severities_) {
        const auto change = [&](const data::Image& picture, int64_t number) {
          return data::corrupt(picture, name, severity,
                               data::corruption_seed(options_.seed, name, severity, number), frost_);
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
  std::vector<data::Image> frost_;
};

}  // namespace pursuit::apps
