#include <fmt/format.h>

#include "apps/segment/commands.h"
#include "apps/segment/run_record.h"

namespace pursuit::segment {

namespace {

using apps::Column, apps::ComparedRun;

const Column mean_iou{.name = "mIoU"}, pixel_accuracy{.name = "pixel acc"}, mean_accuracy{.name = "mean acc"};

Column corrupted(int severity) { return {.name = fmt::format("mIoU corrupted {}", severity)}; }

ComparedRun compared(const RunRecord& run) {
  ComparedRun c{.name = run.name,
                .options = apps::options_to_json(*run.config),
                .attention = describe_attention(*run.config),
                .parameters = apps::parameter_count<nn::Segmenter>(*run.config),
                .measures = {},
                .data = {}};
  c.add_training(run);
  if (!run.results) return c;
  const Results& r = *run.results;
  c.data = r.data + ", " + r.views;
  c.ema = r.ema;
  c.count = r.count;
  c.add(mean_iou.name, r.scores.mean_iou, 100);
  c.add(pixel_accuracy.name, r.scores.pixel_accuracy, 100);
  c.add(mean_accuracy.name, r.scores.mean_accuracy, 100);
  for (const int s : severities_of(r.corrupted))
    c.add(corrupted(s).name, mean_corrupted(r.corrupted, s)->mean_iou, 100);
  return c;
}

}  // namespace

apps::Comparison compare_runs(const std::vector<std::string>& folders) {
  std::vector<ComparedRun> runs;
  for (const std::string& folder : folders) {
    const RunRecord record(folder);
    if (!record.config) apps::fail_no_run(record);
    runs.push_back(compared(record));
  }
  std::vector<Column> columns{mean_iou, pixel_accuracy, mean_accuracy};
  for (int severity = 1; severity <= 5; ++severity) columns.push_back(corrupted(severity));
  for (const Column& column : apps::training_columns()) columns.push_back(column);
  return apps::compare_runs(runs, columns);
}

}  // namespace pursuit::segment
