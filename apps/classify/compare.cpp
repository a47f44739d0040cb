#include <algorithm>

#include "apps/classify/commands.h"
#include "apps/classify/run_record.h"

namespace pursuit::classify {

using apps::Best, apps::Column, apps::ComparedRun;

namespace {

const Column clean{.name = "top-1"}, corrupted{.name = "corrupted"}, mce{.name = "mCE", .best = Best::lowest},
    test_loss{.name = "test loss", .decimals = 3, .best = Best::lowest};

std::string attack_column(const Results::Attacked& a) {
  const std::string budget = budget_text(a.attack, a.budget);
  return a.attack + (budget == "-" ? "" : " " + budget) + (a.space == "pixel" ? " (pixel)" : "");
}

// One column for every attack and space that a run has, at the largest budget of all runs.
std::vector<Column> attack_columns(const std::vector<RunRecord>& runs) {
  std::vector<Results::Attacked> largest;
  for (const RunRecord& run : runs) {
    if (!run.results) continue;
    for (const Results::Attacked& a : run.results->attacked) {
      const auto same = std::find_if(largest.begin(), largest.end(), [&](const Results::Attacked& l) {
        return l.attack == a.attack && l.space == a.space;
      });
      if (same == largest.end())
        largest.push_back(a);
      else if (a.budget > same->budget)
        *same = a;
    }
  }
  std::vector<Column> columns;
  for (const Results::Attacked& a : largest) columns.push_back({.name = attack_column(a)});
  return columns;
}

ComparedRun compared(const RunRecord& run) {
  ComparedRun c{.name = run.name,
                .options = apps::options_to_json(*run.config),
                .attention = describe_attention(*run.config),
                .parameters = apps::parameter_count<nn::VisionTransformer>(*run.config),
                .measures = {},
                .data = {}};
  const bool evaluated = run.results && run.results->count > 0;
  c.add(clean.name, evaluated ? std::optional(run.results->top1) : run.last("test_accuracy"), 100);
  c.add(test_loss.name, evaluated ? std::optional(run.results->loss) : run.last("test_loss"));
  c.add_training(run);
  if (!run.results) return c;
  c.data = run.results->data;
  c.ema = run.results->ema;
  c.count = run.results->count;
  c.add(corrupted.name, mean_corrupted_top1(run.results->corrupted), 100);
  c.add(mce.name, mean_corruption_error(run.results->corrupted), 100);
  for (const Results::Attacked& a : run.results->attacked) c.add(attack_column(a), a.top1, 100);
  return c;
}

}  // namespace

apps::Comparison compare_runs(const std::vector<std::string>& folders) {
  std::vector<RunRecord> records;
  std::vector<ComparedRun> runs;
  for (const std::string& folder : folders) {
    records.emplace_back(folder);
    if (!records.back().config) apps::fail_no_run(records.back());
    runs.push_back(compared(records.back()));
  }
  std::vector<Column> columns{clean, corrupted, mce};
  for (const auto& more : {attack_columns(records), {test_loss}, apps::training_columns()})
    columns.insert(columns.end(), more.begin(), more.end());
  return apps::compare_runs(runs, columns);
}
}  // namespace pursuit::classify
