#pragma once
#include <string>
#include <utility>
#include <vector>

#include "apps/run/json.h"
#include "apps/training/fields.h"
#include "nn/inspection.h"
#include "nn/training_step.h"

namespace pursuit::apps {

struct Metric {
  std::string name, tag;  // in metrics.jsonl and in TensorBoard: "test_loss", "test/loss"
  double value;
};

// The result of evaluating the current weights.
struct Validation {
  std::vector<Metric> metrics;
  std::string text;      // for example "test loss 0.3100  test accuracy 91.20 %"
  double score = 0;      // larger is better
  bool complete = true;  // false if it was stopped early
};

// What an app supplies to be trained by run_training(): model, data and loss. next_batch returns the batches
// of this rank's share (fields.h).
class Task : public nn::Objective {
 public:
  virtual std::string app() const = 0;   // "classify"
  virtual std::string unit() const = 0;  // unit of SentBatch::samples: "images"
  virtual const TrainingFields& fields() const = 0;
  virtual nlohmann::ordered_json config() const = 0;
  virtual std::vector<std::string> head() const = 0;  // lines about data and model, printed at the start

  virtual nn::Module& model() = 0;
  virtual bool decays(const std::string& name, const Tensor& parameter) const {
    return nn::decays_by_timm(name, parameter);
  }

  virtual int64_t steps_per_epoch() const = 0;
  // The next batch is the first of this step of the epoch.
  virtual void start_epoch(int64_t epoch, int64_t step) = 0;

  // Seconds that this process's next_batch has waited for a loader since the start; 0 for data in memory.
  virtual double waited_for_data() const { return 0; }

  virtual Validation evaluate() = 0;
  // Shows the model a few samples of the evaluation's data, for --inspect-every.
  virtual void show(nn::AttentionInspection&) {}
  // Called after the last evaluation: writes results and report to the run's folder and a summary to stdout.
  virtual void finish(const std::string& folder, int64_t step) = 0;
};

}  // namespace pursuit::apps
