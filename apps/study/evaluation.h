#pragma once
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>

#include "apps/run/evaluations.h"
#include "apps/study/loaded_model.h"
#include "apps/study/run_page.h"
#include "apps/terminal/print.h"
#include "apps/terminal/signals.h"
#include "apps/training/provenance.h"

// What `eval` of every app does.
namespace pursuit::apps {

struct EvalOptions {
  std::string checkpoint, data;  // data empty: the run's own
  LoadOptions load;
  int64_t limit = 0, batch_size = 0;  // 0: all samples, the run's
  bool quiet = false, json = false;
};

// One call of `eval`. Every complete result is kept in the run's folder at once, so that a stop loses nothing
// of it. Results of a checkpoint file are only shown.
template <class Record> class Evaluation {
 public:
  using Config = typename Record::Config;
  using Results = typename Record::Results;

  explicit Evaluation(const EvalOptions& options) : asked_(options) {
    if (std::filesystem::is_directory(options.checkpoint)) folder_ = options.checkpoint;
  }
  virtual ~Evaluation() = default;

  // Returns the exit code.
  int run() {
    run_ = run_id(asked_.checkpoint);  // before the weights, which another training may replace
    loaded_ = load_model<Config>(asked_.checkpoint, asked_.load);
    config_ = loaded_.config;
    if constexpr (requires { config_.data; })
      if (!asked_.data.empty()) config_.data = asked_.data;
    if (asked_.batch_size > 0) config_.eval_batch_size = asked_.batch_size;
    open();
    catch_stop_signals();
    const bool done = measure();
    if (any_ && asked_.json)
      apps::print("{}\n", json().dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    else if (any_)
      print();
    if (!done && any_)
      note("stopped; what is complete is shown{}\n", folder_.empty() || failed_ ? "" : " and saved");
    else if (!done)
      note("stopped before any result was complete\n");
    if (failed_) throw *failed_;
    if (any_ && !folder_.empty()) write_report<Record>(folder_);
    return done ? 0 : 1;
  }

 protected:
  virtual void open() = 0;     // the data, as config_ says; throws Error if it cannot be scored
  virtual bool measure() = 0;  // keeps results; false if a stop was requested
  virtual nlohmann::ordered_json json() const = 0;
  virtual void print() const = 0;  // as text, to stdout

  // What a result is measured with, but the data's name and fingerprint, and the options.
  Results measured() const {
    Results r;
    static_cast<Conditions&>(r) = conditions(config_, loaded_.weights, loaded_.state.step, run_);
    return r;
  }
  // An Error of writing is thrown at the end: no result is lost because it cannot be written.
  void keep(const Results& results) {
    any_ = true;
    try {
      if (!folder_.empty()) add_evaluation(folder_, results);
    } catch (const Error& error) {
      if (!failed_) failed_ = error;
    }
  }

  LoadedModel<Config> loaded_;
  Config config_;  // the run's, with what the options change

 private:
  const EvalOptions& asked_;
  std::string folder_, run_;  // folder_ empty: nothing is kept
  bool any_ = false;          // result is complete
  std::optional<Error> failed_;
};

}  // namespace pursuit::apps
