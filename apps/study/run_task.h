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

// A task whose results and report are those of the app's Record. Config::app is the program's name,
// Config::unit what it counts.
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
  virtual const Config& settings() const = 0;           // with what the data filled in
  virtual void fill(Results& results) const = 0;        // what the last evaluation found, and on which data
  virtual std::string summary(int64_t step) const = 0;  // of that, for stdout

  Results results(const std::string& folder, int64_t step) const {
    Results r;
    static_cast<Conditions&>(r) = conditions(settings(), evaluated_weights(settings()), step, run_id(folder));
    fill(r);
    return r;
  }
};

}  // namespace pursuit::apps
