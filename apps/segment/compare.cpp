#include <fmt/format.h>

#include <algorithm>

#include "apps/segment/commands.h"
#include "apps/segment/pipeline.h"
#include "apps/segment/run.h"
#include "apps/segment/run_record.h"
#include "apps/training/comparison_page.h"
#include "apps/training/report_parts.h"

namespace pursuit::segment {

namespace {

using apps::Column, apps::ComparedRun, apps::MeasuredWith;

// A score of -1 is none.
std::optional<double> known(double score) { return score < 0 ? std::nullopt : std::optional(score); }

ComparedRun compared(const RunRecord& run) {
  const std::string own = apps::evaluated_weights(*run.config);
  ComparedRun c{.name = run.name,
                .options = apps::compared_options(run),
                .attention = describe_attention(*run.config),
                .parameters = apps::parameter_count<nn::Segmenter>(*run.config),
                .weights = {},
                .programs = {},
                .problems = run.problems,
                .values = {}};
  const std::vector<Results> results = apps::of_last_step(run.results, run);
  const Results* main = main_evaluation(results, *run.config);
  for (const Results& r : results) {
    MeasuredWith with = apps::measured_with(r, "pictures", own);
    with.emplace_back("views", r.views);
    // What was found on the same pictures in other ways stands beside it.
    const bool asks = !r.corrupted.empty() || (r.fingerprint == main->fingerprint && r.data == main->data);
    c.add({.name = "mIoU", .percent = true, .with = with}, known(r.scores.mean_iou), 100, asks);
    c.add({.name = "pixel acc", .percent = true, .with = with}, known(r.scores.pixel_accuracy), 100, asks);
    c.add({.name = "mean acc", .percent = true, .with = with}, known(r.scores.mean_accuracy), 100, asks);
    if (asks) c.weights = own == "ema" ? "averaged" : "raw";
    if (asks && r.made_by.is_object()) c.programs = program(r);
    with.emplace_back("seed", std::to_string(r.seed));
    with.emplace_back("frost", r.frost.empty() ? "not recorded" : r.frost);
    for (const int severity : severities_of(r.corrupted)) {
      std::vector<Results::Corrupted> at = r.corrupted;
      std::erase_if(at, [&](const Results::Corrupted& each) { return each.severity != severity; });
      const std::string set = apps::corruption_set(at, true), all = apps::corruption_set(at);
      MeasuredWith how = with;
      if (set != all) how.emplace_back(fmt::format("corruptions at {}", severity), all);
      c.add({.name = "mIoU " + set, .percent = true, .with = how},
            known(mean_corrupted(at, severity)->mean_iou), 100);
    }
  }
  c.add_training(run);
  return c;
}

apps::Comparison compare(const std::vector<RunRecord>& records) {
  std::vector<ComparedRun> runs;
  for (const RunRecord& record : records) runs.push_back(compared(record));
  return apps::compare_runs(runs);
}

}  // namespace

const Results* main_evaluation(const std::vector<Results>& results, const Config& c) {
  const std::string test = describe_data(c, "test"), watched = describe_data(c, c.validation);
  const std::string views = describe(views_of(c));
  return apps::main_evaluation(results, apps::evaluated_weights(c), [&](const Results& r) {
    return std::tuple(r.data == test, r.data == watched, r.views == views);
  });
}

apps::Comparison compare_runs(const std::vector<std::string>& folders) {
  return compare(apps::read_runs<RunRecord>("segment", folders));
}

void write_comparison(const std::string& file, const std::vector<std::string>& folders) {
  const std::vector<RunRecord> records = apps::read_runs<RunRecord>("segment", folders);
  std::vector<const apps::RunFolder*> runs;
  for (const RunRecord& r : records) runs.push_back(&r);
  apps::write_comparison(
      file, compare(records), runs,
      {.app = "segment",
       .title = fmt::format("Comparison of {} segmenters", records.size()),
       .curves = {
           {.title = "Training loss", .key = "loss", .unit = "cross-entropy", .smooth = true},
           {.title = "mIoU in training", .key = "mean_iou", .unit = "%", .scale = 100},
           {.title = "Pixel accuracy in training", .key = "pixel_accuracy", .unit = "%", .scale = 100}}});
}

}  // namespace pursuit::segment
