#pragma once
#include <filesystem>
#include <string>

#include "apps/run/evaluations.h"
#include "apps/run/fields.h"
#include "apps/study/run_page.h"
#include "apps/terminal/print.h"
#include "apps/training/provenance.h"
#include "apps/training/task.h"

namespace pursuit::apps {

// A task that writes results and report of the app's Record. Config::app is the program's name, Config::unit
// the unit of its samples.
template <class Record> class TaskOf : public Task {
 public:
  using Config = typename Record::Config;
  using Results = typename Record::Results;

  std::string app() const override { return Config::app; }
  std::string unit() const override { return Config::unit; }
  const TrainingFields& fields() const override { return settings(); }
  nlohmann::ordered_json config() const override { return fields_to_json(settings()); }

  void finish(const std::string& folder, int64_t step) override {
    add_evaluation(folder, results(folder, step));
    write_report<Record>(folder);
    print("{}\nreport {}\n", summary(step), (std::filesystem::path(folder) / "report.html").string());
  }

 protected:
  virtual const Config& settings() const = 0;           // including the fields filled in from the data
  virtual void fill(Results& results) const = 0;        // sets scores and data of the last evaluation
  virtual std::string summary(int64_t step) const = 0;  // of the last evaluation, for stdout

  Results results(const std::string& folder, int64_t step) const {
    Results r;
    static_cast<Conditions&>(r) = conditions(settings(), evaluated_weights(settings()), step, run_id(folder));
    fill(r);
    return r;
  }
};

}  // namespace pursuit::apps
