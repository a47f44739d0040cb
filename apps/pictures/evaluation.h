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
#include "apps/study/kept_results.h"
#include "apps/study/loaded_model.h"
#include "apps/terminal/print.h"
#include "apps/terminal/progress.h"
#include "apps/terminal/signals.h"
#include "apps/training/provenance.h"
#include "data/image.h"

namespace CLI {
class App;
}

// `eval` of the apps on pictures: scores on the pictures as they are, and under corruptions of them.
namespace pursuit::apps {

struct PictureEvalOptions {
  std::string checkpoint, data, format;  // data empty: the run's own
  LoadOptions load;
  std::vector<std::string> corruptions;  // "all" or names
  std::vector<int> severities = {1, 2, 3, 4, 5};
  std::string frost;  // folder of overlays
  int64_t first = 0, limit = 0, batch_size = 0;
  uint64_t seed = 0;
  bool quiet = false, skip_bad = false, json = false;

  // What was asked for, as far as results depend on it, as on a command line; `looked_at` pictures (0: all).
  std::string arguments(int64_t looked_at) const;
};
void add_picture_eval_options(CLI::App& command, PictureEvalOptions& options);

// A picture before anything else is done with it, and its number in the data set.
using PictureChange = std::function<data::Image(const data::Image& picture, int64_t number)>;
using Tick = std::function<void(int64_t pictures)>;  // done so far

// Reports the pictures of one evaluation to a bar over several of them.
inline Tick ticker(Progress& bar, int64_t before, const std::string& note) {
  return [&bar, before, note, last = int64_t(0)](int64_t done) mutable {
    bar.update(before + done, done - last, note);
    last = done;
  };
}

// One call of `eval`. Everything that is complete is saved at once, so that a stop loses nothing of it.
template <class ConfigType, class ResultsType, class DataSet> class PictureEvaluation {
 public:
  using Config = ConfigType;
  using Results = ResultsType;
  using Scores = typename Results::Scores;

  // write_report(folder) is the app's.
  PictureEvaluation(const PictureEvalOptions& options, void (*write_report)(const std::string&))
      : options_(options), kept_(options.checkpoint), write_report_(write_report) {}
  virtual ~PictureEvaluation() = default;

  // Returns the exit code.
  int run() {
    corruptions_ = chosen("--corruptions", options_.corruptions, data::corruption_names());
    severities_ = {options_.severities.begin(), options_.severities.end()};
    run_ = run_id(options_.checkpoint);  // before the weights, which another training may replace
    loaded_ = load_model<Config>(options_.checkpoint, options_.load);
    config_ = with_options(loaded_.config);
    open();
    frost_ = frost_overlays(options_.frost, corruptions_);
    if (!options_.quiet) {
      note("pursuit {} on {}, {}\n", PURSUIT_VERSION, pursuit::describe(device_from_name(config_.device)),
           name_of(config_.dtype));
      note("model  {}: {}, step {}{}\n", loaded_.name, describe_attention(config_), loaded_.state.step,
           loaded_.weights == "ema" ? ", averaged weights" : "");
      note("data   {}\n", data_line());
    }
    catch_stop_signals();
    const bool done = clean() && under_corruptions() && more();
    if (done || results_.count > 0) print_all();
    if (data_->skipped() > 0) note("{} damaged pictures were {}\n", data_->skipped(), skipped_are());
    return kept_.finish(done, results_.count > 0, write_report_);
  }

 protected:
  // Opens data_ as config_ says and checks that it can be scored; fills in results_.
  virtual void open() = 0;
  virtual std::string data_line() const = 0;                      // what is evaluated, for stderr
  virtual std::string skipped_are() const { return "left out"; }  // damaged pictures, under --skip-bad
  // Scores all pictures after a change; none if a stop was requested.
  virtual std::optional<Scores> score(const PictureChange& change, const Tick& tick) = 0;
  // Scores them as they are, into results_; false if a stop was requested.
  virtual bool clean() = 0;
  virtual bool more() { return true; }  // likewise what the app has beside corruptions
  virtual nlohmann::ordered_json json() const { return to_json(results_); }
  virtual void print() const = 0;  // as text, to stdout

  // What a result is measured with, but the data's name and fingerprint.
  Results conditions_of(DType dtype, int64_t looked_at) const {
    Results r;
    static_cast<Conditions&>(r) = conditions(config_, loaded_.weights, loaded_.state.step, run_);
    r.dtype = name_of(dtype);
    r.options = options_.arguments(looked_at);
    r.seed = options_.seed;
    if (!options_.frost.empty()) r.frost = last_name(options_.frost);
    return r;
  }
  void save(const Results& results) {
    kept_.add([&](const std::string& folder) { add_evaluation(folder, results); });
  }

  std::set<int> severities_;
  LoadedModel<Config> loaded_;
  Config config_;  // the run's, with what the options change
  std::unique_ptr<DataSet> data_;
  Results results_;

 private:
  Config with_options(Config c) const {
    c.limit = c.test_limit = options_.limit;
    c.skip_bad = c.skip_bad || options_.skip_bad;
    if (options_.batch_size > 0) c.eval_batch_size = options_.batch_size;
    if (!options_.data.empty()) {
      c.data = options_.data;
      c.format = "auto";
    }
    if (!options_.format.empty()) c.format = options_.format;
    return c;
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
        save(results_);
      }
    return true;
  }

  void print_all() const {
    if (options_.json)
      apps::print("{}\n", json().dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    else if (results_.count > 0)
      print();
  }

  const PictureEvalOptions& options_;
  KeptResults kept_;
  void (*write_report_)(const std::string&);
  std::vector<std::string> corruptions_;
  std::string run_;
  std::vector<data::Image> frost_;
};

}  // namespace pursuit::apps
