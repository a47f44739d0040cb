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

namespace pursuit::apps {

struct EvalOptions {
  std::string checkpoint, data;  // data empty: the run's
  LoadOptions load;
  int64_t limit = 0, batch_size = 0;  // 0: all samples; the run's batch size
  bool quiet = false, json = false;
};

// One call of `eval`, for all apps. Every complete result is written to the run's folder at once, so that a
// stop loses none. Results of a checkpoint file are only printed.
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
    run_ = run_id(asked_.checkpoint);  // read before the weights, which another training may replace
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
  virtual void open() = 0;     // opens the config's data; throws Error if the model cannot be scored on it
  virtual bool measure() = 0;  // measures and calls keep(); returns false if a stop was requested
  virtual nlohmann::ordered_json json() const = 0;
  virtual void print() const = 0;  // as text, to stdout

  // Results with their conditions, except the data's name and fingerprint and the options.
  Results measured() const {
    Results r;
    static_cast<Conditions&>(r) = conditions(config_, loaded_.weights, loaded_.state.step, run_);
    return r;
  }
  // Saves results. If writing fails, run() throws the Error at the end, after all results are printed.
  void keep(const Results& results) {
    any_ = true;
    try {
      if (!folder_.empty()) add_evaluation(folder_, results);
    } catch (const Error& error) {
      if (!failed_) failed_ = error;
    }
  }

  LoadedModel<Config> loaded_;
  Config config_;  // the run's, changed by the options

 private:
  const EvalOptions& asked_;
  std::string folder_, run_;  // folder_ empty: results are not saved
  bool any_ = false;          // true once a result is complete
  std::optional<Error> failed_;
};

}  // namespace pursuit::apps
