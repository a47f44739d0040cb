#include "apps/training/training_run.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <optional>
#include <set>

#include "apps/command/options.h"
#include "apps/run/evaluations.h"
#include "apps/run/files.h"
#include "apps/run/metrics.h"
#include "apps/run/run_folder.h"
#include "apps/run/tensorboard.h"
#include "apps/terminal/print.h"
#include "apps/terminal/progress.h"
#include "apps/terminal/signals.h"
#include "apps/training/checkpoint.h"
#include "apps/training/inspections.h"
#include "apps/training/provenance.h"
#include "apps/training/ranks.h"
#include "engine/base/error.h"
#include "engine/cpu/parallel.h"
#include "engine/files/atomic_file.h"
#include "engine/inspect/trace.h"
#include "engine/program/describe.h"
#include "nn/inference.h"

namespace pursuit::apps {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

constexpr int64_t log_every = 10;  // steps

struct StepUnderWay {
  int64_t number, epoch, batch, samples;  // number and batch from 1
  double lr;
};

void check_no_run(const RunOptions& o) {
  if (o.resume.empty() && !o.overwrite && holds_run(o.out))
    fail("train", o.out + " already holds a run; go on with --resume " + o.out +
                      ", choose another --out, or replace it with --overwrite");
}

class TrainingRun {
 public:
  TrainingRun(Task& task, const RunOptions& options, RunStart& start, distributed::Communicator& ranks)
      : task_(task),
        fields_(task.fields()),
        options_(options),
        ranks_(ranks),
        leads_(ranks.rank() == 0),
        quiet_(options.quiet || !leads_),
        folder_(options.folder()),
        lock_(std::move(start.lock)),
        flat_(
            task.model(), [&](const std::string& name, const Tensor& t) { return task.decays(name, t); },
            fields_.dtype),
        optimizer_(flat_, optimizer_config(fields_)),
        schedule_(schedule(fields_)) {
    if (fields_.steps > 0) schedule_.total = double(last_step()) / double(task.steps_per_epoch());
    if (fields_.ema > 0) ema_.emplace(flat_, fields_.ema);
    if (start.checkpoint) go_on_from(*start.checkpoint);
    if (is_finished()) return;
    if (leads_) open_folder(start.checkpoint ? config_with_changes(start.checkpoint->config) : task.config());
    step_.emplace(task_, fields_.accumulate, ranks, flat_, optimizer_, ema(), !options.no_graph);
    catch_stop_signals();
    started_ = saved_ = logged_ = evaluated_ = Clock::now();
  }

  int run() {
    const int64_t end = last_step();
    if (is_finished()) {
      if (leads_) note("{} is finished: all {} steps are done; for more give {}\n", folder_, end, limit());
      return 0;
    }
    bar_.emplace("train", state_.step, end, ProgressOptions{.quiet = quiet_, .unit = task_.unit()});
    // Repeats the evaluation at the checkpoint's step if a stop interrupted it.
    if (state_.step < end && evaluation_is_due()) evaluate();
    if (state_.step == 0 && fields_.inspect_every > 0) inspect();
    task_.start_epoch(state_.epoch, state_.batch);
    while (state_.step < end && !stop_) {
      step();
      if (state_.batch == task_.steps_per_epoch()) next_epoch(state_.step < end);
    }
    finish_steps(0);
    bar_.reset();
    save();
    if (stop_) {
      if (leads_)
        note("stopped at step {}; go on with: {} train --resume {}\n", state_.step, task_.app(), folder_);
      return 1;
    }
    if (!evaluate()) {
      if (leads_)
        note("stopped; all {} steps are done, for the last evaluation: {} train --resume {}\n", state_.step,
             task_.app(), folder_);
      return 1;
    }
    if (leads_) task_.finish(folder_, state_.step);
    save();  // marks the run as finished
    return 0;
  }

 private:
  void go_on_from(const Checkpoint& checkpoint) {
    state_ = resume(checkpoint, task_.model(), optimizer_, ema());
    flat_.refresh();
    kept_ = {checkpoint.path, state_.step};
    if (state_.step > last_step())
      fail("train", fmt::format("{} has done {} steps already; {} would end it at {}", folder_, state_.step,
                                limit(), last_step()));
    if (state_.batch >= task_.steps_per_epoch())
      fail("checkpoint", fmt::format("{}: progress is damaged: step {} of an epoch of {}", checkpoint.path,
                                     state_.batch, task_.steps_per_epoch()));
    const bool has_best = state_.best_score > RunState().best_score;
    if (!fields_.keep_best || (!has_best && !fs::exists(best_path(folder_)))) return;
    try {
      open_checkpoint(task_.app(), best_path(folder_), options_.verify);
    } catch (const Error& damage) {
      note("{}; {}\n", damage.what(),
           is_finished() ? "the last checkpoint is whole" : "the next evaluation's weights take its place");
      state_.best_score = RunState().best_score;
    }
  }

  bool is_finished() const { return state_.step == last_step() && state_.evaluated == state_.step; }

  void open_folder(const Json& config) {
    const bool resuming = !options_.resume.empty();
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) fail("train", "cannot create " + folder_ + ": " + error.message());
    if (!lock_) lock_.emplace(folder_);
    check_no_run(options_);
    // The lock keeps an evaluation of the old run from adding results before the new config.json is written.
    const FolderLock files(folder_);
    if (!resuming) remove_old_run(folder_);
    // Evaluations after the checkpoint's last one are repeated, so their records are dropped; so is an inspection
    // before the first step.
    const auto keep = [&](int64_t step, const Json& line) {
      return state_.step > 0 && step <= (line.contains("train_loss") ? state_.evaluated : state_.step);
    };
    metrics_.emplace(metrics_path(folder_), resuming ? MetricsWriter::Keep(keep) : nullptr);
    if (resuming) seconds_before_ = RunFolder(folder_).training_seconds().value_or(0);
    if (fields_.inspect_every > 0 || fs::exists(inspections_path(folder_)))
      inspections_.emplace(inspections_path(folder_), resuming ? MetricsWriter::Keep(keep) : nullptr);
    events_.emplace((fs::path(folder_) / "tensorboard").string(),
                    resuming ? std::optional(state_.step) : std::nullopt);
    // Written last, so that a failed start does not change the file.
    Json noted = config;
    if (const std::string job = job_name(); !job.empty()) noted["job"] = job;
    write_config(folder_, noted, task_.app(), fields_.device, state_.step);
    if (!quiet_) print_head();
  }

  // The task's config with the "changes" of all resumed starts, this one included. The checkpoint's config is
  // compared, because config.json may have been edited since.
  Json config_with_changes(const Json& trained) const {
    Json config = task_.config(), changes = Json::array();
    const std::string file = config_path(folder_);
    for (const auto& change : config_of_run(folder_).value("changes", changes)) {
      if (!change.is_object() || !change.contains("to") ||
          !change.value("step", Json()).is_number_integer() || !change.value("option", Json()).is_string())
        fail("config", file + ": 'changes' is damaged; remove it");
      // A change after the checkpoint's step was never trained with; the loop below finds the current ones.
      const int64_t step = change["step"];
      const std::string option = change["option"];
      if (step < state_.step ||
          (step == state_.step && trained.contains(option) && trained[option] == change["to"]))
        changes.push_back(change);
    }
    for (const auto& [option, value] : config.items()) {
      if (!trained.contains(option) || trained[option] == value) continue;
      note("change {} from {} to {}, from step {} on\n", option, trained[option].dump(), value.dump(),
           state_.step);
      changes.push_back(
          {{"step", state_.step}, {"option", option}, {"from", trained[option]}, {"to", value}});
    }
    if (!changes.empty()) config["changes"] = changes;
    return config;
  }

  void print_head() {
    note("pursuit {} on {}, {}\n", PURSUIT_VERSION, pursuit::describe(flat_.values.device()),
         name_of(fields_.dtype));
    for (const std::string& line : task_.head()) note("{}\n", line);
    note("batch  {}; {} steps, learning rate {}\n", describe_batch(fields_), last_step(), fields_.lr);
    const double warmup = fields_.warmup_epochs * double(task_.steps_per_epoch());
    if (warmup >= double(last_step()))
      note(
          "note: the learning rate rises for all {} steps and never reaches --lr: --warmup-epochs {:g} are "
          "{:.0f} "
          "steps\n",
          last_step(), fields_.warmup_epochs, warmup);
    note("run    {}{}\n", folder_,
         state_.step ? fmt::format(", going on at step {}", state_.step) : std::string());
  }

  nn::Ema* ema() { return ema_ ? &*ema_ : nullptr; }

  int64_t last_step() const {
    return fields_.steps > 0 ? fields_.steps : fields_.epochs * task_.steps_per_epoch();
  }
  const char* limit() const { return fields_.steps > 0 ? "--steps" : "--epochs"; }

  double learning_rate() const {
    // Published recipes step the schedule after each epoch, so that epoch e trains with the rate of e - 1.
    if (fields_.lr_step == LrStep::epoch) return schedule_.at(double(std::max<int64_t>(0, state_.epoch - 1)));
    return schedule_.at(double(state_.step) / double(task_.steps_per_epoch()));
  }

  // Starts a step. On a GPU its loss is read after the next step has been started, so that the GPU never
  // waits.
  void step() {
    const double lr = learning_rate();
    task_.model().set_training(true);
    const int64_t samples = step_->start(state_.step, lr, stop_requested());
    ++state_.step;
    ++state_.batch;
    under_way_.push_back({state_.step, state_.epoch, state_.batch, samples, lr});
    finish_steps(flat_.on_gpu() ? 1 : 0);
    if (options_.ranks.check_replicas && ranks_.size() > 1) check_replicas();
    // The last step of an epoch is evaluated and saved by next_epoch(), so that no checkpoint has batch ==
    // steps_per_epoch().
    if (state_.batch == task_.steps_per_epoch()) return;
    if (state_.step < last_step() && evaluation_is_due()) evaluate();
    if (is_due(fields_.inspect_every)) inspect();
    const bool due = fields_.checkpoint_steps > 0 && state_.step % fields_.checkpoint_steps == 0;
    if (due || seconds_since(saved_) >= fields_.checkpoint_seconds) save();
  }

  void finish_steps(size_t left_under_way) {
    for (; under_way_.size() > left_under_way; under_way_.pop_front()) {
      const StepUnderWay& s = under_way_.front();
      const double loss = step_->loss(s.number - 1);
      stop_ = stop_ || step_->stop(s.number - 1);
      if (!std::isfinite(loss)) stop_diverged(fmt::format("the loss is {} at step {}", loss, s.number));
      if (s.batch == 1) state_.loss_sum = state_.loss_count = 0;
      state_.loss_sum += loss;
      ++state_.loss_count;
      report(s, loss);
    }
  }

  [[noreturn]] void stop_diverged(const std::string& what) const {
    const std::string kept = kept_ ? fmt::format("{} of step {} is kept", kept_->path, kept_->step)
                                   : "no checkpoint was saved before";
    throw NotFinite("[train] " + what + "; " + kept + ". Use a lower --lr, or --clip-norm");
  }

  void report(const StepUnderWay& s, double loss) {
    samples_ += s.samples;
    const double seconds = std::max(1e-9, seconds_since(logged_)),
                 wait = (task_.waited_for_data() - waited_for_data_) / seconds;
    bar_->update(s.number, s.samples,
                 fmt::format("loss {:.3f}, {:.0f} % waiting for data", loss, 100 * wait));
    if (s.number % log_every != 0 || !leads_) return;
    const double rate = double(samples_) / seconds;
    const std::string rate_name = task_.unit() + "_per_second";
    metrics_->write(
        s.number,
        {{"epoch", epochs(s.number)}, {"loss", loss}, {"lr", s.lr}, {rate_name, rate}, {"data_wait", wait}});
    events_->scalars(
        s.number,
        {{"train/loss", loss}, {"train/lr", s.lr}, {"train/" + rate_name, rate}, {"train/data_wait", wait}});
    samples_ = 0;
    waited_for_data_ = task_.waited_for_data();
    logged_ = Clock::now();
  }

  void next_epoch(bool more) {
    ++state_.epoch;
    state_.batch = 0;
    if (is_due(fields_.inspect_every)) inspect();
    if (!more) return;
    if (evaluation_is_due()) evaluate();
    save();
    task_.start_epoch(state_.epoch, 0);
  }

  double epochs(int64_t step) const { return double(step) / double(task_.steps_per_epoch()); }

  bool evaluation_is_due() const { return state_.evaluated != state_.step && is_due(fields_.eval_every); }

  // Whether the last step has completed another so many epochs.
  bool is_due(double interval) const {
    const double every = interval * double(task_.steps_per_epoch());
    return every > 0 && std::floor(double(state_.step) / every) > std::floor(double(state_.step - 1) / every);
  }

  // Measures the attention of the weights that are evaluated. Only rank 0 does; the others wait at the next step.
  void inspect() {
    finish_steps(0);
    if (!leads_) return;
    const Clock::time_point start = Clock::now();
    task_.model().set_training(false);
    const bool averaged = evaluated_weights(fields_) == "ema";
    if (averaged) ema_->swap();
    try {
      nn::AttentionInspection inspection(task_.model(), {.decomposed = 1});
      task_.show(inspection);
      const std::vector<nn::LayerMeasures> layers = inspection.layers();
      Json line = Json::object();
      std::vector<std::pair<std::string, double>> scalars;
      for (const Metric& m : inspection_metrics(layers)) {
        line[m.name] = m.value;  // null if it is not finite
        if (std::isfinite(m.value)) scalars.emplace_back(m.tag, m.value);
      }
      metrics_->write(state_.step, line);
      events_->scalars(state_.step, scalars);
      inspections_->write(state_.step, {{"layers", to_json(layers)}});
    } catch (const Error& e) {
      note("no inspection at step {}: {}\n", state_.step, e.what());
    }
    if (averaged) ema_->swap();
    logged_ += std::chrono::duration_cast<Clock::duration>(Clock::now() - start);
  }

  // Returns false if it was stopped early.
  bool evaluate() {
    finish_steps(0);
    // best.safetensors must not exist without a checkpoint to resume from.
    if (fields_.keep_best && !kept_) save();
    const Clock::time_point start = Clock::now();
    const std::string slow = slow_rank();
    task_.model().set_training(false);
    const std::string weights = evaluated_weights(fields_);
    if (weights == "ema") ema_->swap();
    Validation validation;
    try {
      const TraceSpan span("evaluate");
      const nn::Inference inference(task_.model());
      validation = task_.evaluate();
    } catch (const NotFinite& e) {
      stop_diverged(fmt::format("{}, in the evaluation at step {}", e.what(), state_.step));
    }
    if (weights == "ema") ema_->swap();
    if (reduced(ranks_, validation.complete ? 0 : 1, distributed::Reduction::max) > 0) {
      stop_ = true;
      return false;
    }
    const double epoch = epochs(state_.step);
    const double mean_loss = state_.loss_count ? state_.loss_sum / double(state_.loss_count) : NAN;
    Json line = {{"epoch", epoch}, {"train_loss", mean_loss}};
    std::vector<std::pair<std::string, double>> scalars = {{"train/mean_loss", mean_loss}};
    for (const Metric& m : validation.metrics) {
      line[m.name] = m.value;
      scalars.emplace_back(m.tag, m.value);
    }
    line["weights"] = weights;
    line["seconds"] = seconds_before_ + seconds_since(started_);
    if (leads_) {
      metrics_->write(state_.step, line);
      events_->scalars(state_.step, scalars);
    }
    state_.evaluated = state_.step;
    if (!quiet_) {
      const std::string text = fmt::format("epoch {:>4}  train loss {:.4f}  {}{}",
                                           fmt::format("{:.4g}", epoch), mean_loss, validation.text, slow);
      bar_ ? bar_->print(text) : note("{}\n", text);
    }
    if (validation.score > state_.best_score) {
      state_.best_score = validation.score;
      if (fields_.keep_best) save_to(best_path(folder_));
    }
    // The time of the evaluation does not count in the training rate.
    evaluated_ = Clock::now();
    logged_ += std::chrono::duration_cast<Clock::duration>(evaluated_ - start);
    waited_ = ranks_.waited();
    return true;
  }

  // For example "  waited for rank 3: 12 %". The slowest rank waits least; the figure is how much longer the
  // fastest rank waited, as a share of the time since the last evaluation. Empty below 5 % or one second.
  std::string slow_rank() const {
    if (ranks_.size() == 1) return "";
    const double seconds = seconds_since(evaluated_);
    const std::vector<double> waited = gathered(ranks_, ranks_.waited() - waited_);
    const auto [least, most] = std::minmax_element(waited.begin(), waited.end());
    const double longer = *most - *least;
    if (longer < std::max(1.0, 0.05 * seconds)) return "";
    return fmt::format("  waited for rank {}: {:.0f} %", least - waited.begin(), 100 * longer / seconds);
  }

  // Throws Error unless the hash of the weights is the same on all ranks.
  void check_replicas() const {
    const Tensor values = flat_.values.to(cpu);
    const auto hashes = gathered(ranks_, int64_t(XXH3_64bits(values.raw(), size_t(values.bytes()))));
    for (size_t rank = 1; rank < hashes.size(); ++rank)
      if (hashes[rank] != hashes[0])
        fail("train", fmt::format("rank {} has other weights than rank 0 after step {}", rank, state_.step));
  }

  void save() {
    finish_steps(0);
    const std::string path = checkpoint_path(folder_);
    // A second checkpoint of the same step and a damaged one are replaced instead of kept.
    const bool keep_old = kept_ && kept_->path == path && kept_->step != state_.step;
    save_to(path, keep_old ? previous_path(folder_) : "");
    kept_ = {path, state_.step};
    saved_ = Clock::now();
  }

  void save_to(const std::string& path, const std::string& old_name = "") {
    if (!leads_) return;
    try {
      save_checkpoint(path, task_.app(), task_.config(), state_, task_.model(), optimizer_, ema(), old_name);
    } catch (const NotFinite& e) {
      stop_diverged(e.what());
    }
  }

  Task& task_;
  const TrainingFields& fields_;
  const RunOptions& options_;
  distributed::Communicator& ranks_;
  const bool leads_, quiet_;  // leads_: writes the run's files
  bool stop_ = false;         // a rank was asked to stop
  std::string folder_;
  std::optional<TrainingLock> lock_;
  RunState state_;
  struct Kept {
    std::string path;
    int64_t step;
  };
  std::optional<Kept> kept_;  // the newest whole checkpoint
  nn::FlatParameters flat_;
  nn::Optimizer optimizer_;
  std::optional<nn::Ema> ema_;
  nn::Schedule schedule_;
  std::optional<nn::TrainingStep> step_;
  std::deque<StepUnderWay> under_way_;
  std::optional<MetricsWriter> metrics_, inspections_;
  std::optional<TensorboardWriter> events_;
  std::optional<Progress> bar_;
  double seconds_before_ = 0;  // of training before this start
  Clock::time_point started_, saved_, logged_, evaluated_;
  double waited_ = 0;           // Communicator::waited at the last evaluation
  int64_t samples_ = 0;         // since the last line of metrics
  double waited_for_data_ = 0;  // Task::waited_for_data at that line
};

// The settings that must be equal on all ranks. Long values are hashed.
distributed::Description description(const Task& task, const RunOptions& o, const RunStart& start) {
  static const std::set<std::string> own = {"device", "threads", "workers", "cache"};
  distributed::Description all = {
      {"the program", fmt::format("{} {}", PURSUIT_VERSION, build_commit)},
      {"the first step", std::to_string(start.checkpoint ? start.checkpoint->state.step : 0)},
      {"ordered-reduce", o.ranks.ordered_reduce ? "true" : "false"},
      {"wire", choice_name(o.ranks.wire)},
      {"check-replicas", o.ranks.check_replicas ? "true" : "false"}};
  const Json config = task.config();
  for (const auto& [name, value] : config.items()) {
    if (own.contains(name)) continue;
    const std::string text = value.dump();
    all.emplace_back(name, text.size() <= 200 ? text
                                              : fmt::format("{} bytes, hash {:x}", text.size(),
                                                            XXH3_64bits(text.data(), text.size())));
  }
  return all;
}

}  // namespace

void add_run_options(CLI::App& command, RunOptions& o, const std::string& default_out) {
  command.add_option("--recipe", o.recipe, "Settings by name (see `recipes`) or a file; options override it");
  command.add_option("--out", o.out, "Folder of the run (default: " + default_out + ")");
  command.add_option("--resume", o.resume,
                     "Go on with the run in this folder, with the same bits as without a stop");
  command.add_flag("--overwrite", o.overwrite, "Replace the run that --out already holds");
  command.add_flag("--no-verify{false}", o.verify,
                   "With --resume: do not compare the checkpoint's checksums");
  command.add_flag("--no-graph", o.no_graph,
                   "Run the operators one by one on a GPU too, without a CUDA graph; the result is the same");
  command.add_flag("--ordered-reduce", o.ranks.ordered_reduce,
                   "Several ranks: add gradients in rank order, as --accumulate does");
  add_choice<DType>(command, "--wire", o.ranks.wire, "Several ranks: data type in which gradients are sent");
  command.add_flag("--check-replicas", o.ranks.check_replicas,
                   "Several ranks: compare the weights of all ranks after every step");
  command.add_flag("--quiet", o.quiet, "No progress on stderr");
}

void check_folder(const RunOptions& o) {
  if (!o.resume.empty()) return;
  check_not_in_training(o.out);
  check_no_run(o);
}

bool may_change(const std::string& option) {
  static const std::set<std::string> names = {"epochs",        "steps",          "device",
                                              "threads",       "workers",        "data",
                                              "format",        "cache",          "checkpoint-seconds",
                                              "ranks",         "eval-every",     "checkpoint-steps",
                                              "inspect-every", "eval-batch-size"};
  return names.contains(option);
}

void check_resume_options(const CLI::App& train) {
  static const std::set<std::string> beside = {"resume",         "quiet", "no-graph",      "no-verify",
                                               "ordered-reduce", "wire",  "check-replicas"};
  for (const CLI::Option* option : train.get_options()) {
    const std::string name = option->get_single_name();
    if (option->count() > 0 && !beside.contains(name) && !may_change(name))
      throw CLI::ValidationError("--" + name,
                                 "cannot be given beside --resume: the run keeps what it was started with");
  }
}

RunStart start_run(const std::string& app, const nlohmann::ordered_json& config, const RunOptions& o,
                   int rank) {
  RunStart start;
  if (o.resume.empty()) return start;
  if (rank == 0) start.lock.emplace(o.resume);
  if (!fs::exists(checkpoint_path(o.resume)) && !fs::exists(previous_path(o.resume))) {
    for (const std::string& later : {best_path(o.resume), evaluations_path(o.resume)})
      if (fs::exists(later))
        fail("train",
             fmt::format("{} is there, but no checkpoint.safetensors to go on from; put that back, or "
                         "begin anew with --out {} --overwrite",
                         later, o.resume));
    if (rank == 0) note("{} holds no checkpoint yet: the run begins at step 0\n", o.resume);
    return start;
  }
  start.checkpoint = open_checkpoint(app, o.resume, o.verify);
  if (!start.checkpoint->file.metadata.contains("progress"))
    fail("train", start.checkpoint->path + " holds weights alone, no training to go on with");
  // The number of ranks may change if ranks * accumulate stays the same.
  const auto batches = [](const Json& c) {
    int64_t product = 1;
    for (const char* factor : {"ranks", "accumulate"})
      if (c.contains(factor)) product *= member_of<int64_t>(c, factor);
    return product;
  };
  if (batches(config) != batches(start.checkpoint->config))
    fail("config",
         fmt::format("{}: 'ranks' times 'accumulate' is {}, but the run was trained with {}; put that back",
                     config_path(o.resume), batches(config), batches(start.checkpoint->config)));
  for (const auto& [field, value] : start.checkpoint->config.items())
    if (config.contains(field) && config[field] != value && !may_change(field) && field != "accumulate")
      fail("config", fmt::format("{}: '{}' is {:.40}, but the run was trained with {:.40}; put that back",
                                 config_path(o.resume), field, config[field].dump(), value.dump()));
  return start;
}

int run_training(Task& task, const RunOptions& options, RunStart start, distributed::Communicator& ranks) {
  ranks.agree(description(task, options, start));
  TrainingRun run(task, options, start, ranks);
  start.checkpoint.reset();  // its tensors are in the model now
  return run.run();
}

}  // namespace pursuit::apps
