#pragma once
#include <string>
#include <utility>
#include <vector>

#include "apps/run/json.h"
#include "apps/training/fields.h"
#include "nn/training_step.h"

namespace pursuit::apps {

struct Metric {
  std::string name, tag;  // in metrics.jsonl and in TensorBoard: "test_loss", "test/loss"
  double value;
};

// What an evaluation of the current weights found.
struct Validation {
  std::vector<Metric> metrics;
  std::string text;      // "test loss 0.3100  test accuracy 91.20 %"
  double score = 0;      // the larger the better
  bool complete = true;  // false: it was stopped half-way
};

// What is trained: model, data and loss of an app, a batch of next_batch being that of share() in fields.h. A
// TrainingRun does the rest.
class Task : public nn::Objective {
 public:
  virtual std::string app() const = 0;   // "classify"
  virtual std::string unit() const = 0;  // of SentBatch::samples: "images"
  virtual const TrainingFields& fields() const = 0;
  virtual nlohmann::ordered_json config() const = 0;
  virtual std::vector<std::string> head() const = 0;  // lines on data and model, printed at the start

  virtual nn::Module& model() = 0;
  virtual bool decays(const std::string& name, const Tensor& parameter) const {
    return nn::decays_by_timm(name, parameter);
  }

  virtual int64_t steps_per_epoch() const = 0;
  // Batches follow from this step of the epoch on.
  virtual void start_epoch(int64_t epoch, int64_t step) = 0;

  virtual Validation evaluate() = 0;
  // After the last step and its evaluation: results and report into the run's folder, the summary to stdout.
  virtual void finish(const std::string& folder, int64_t step) = 0;
};

}  // namespace pursuit::apps
