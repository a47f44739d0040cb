#include <fmt/format.h>

#include <algorithm>

#include "apps/classify/commands.h"
#include "apps/classify/run_record.h"
#include "apps/training/report_parts.h"
#include "data/corruptions.h"

namespace pursuit::classify {

using apps::Best, apps::Column, apps::ComparedRun, apps::MeasuredWith;

namespace {

std::string attack_name(const Results::Attacked& a) {
  const std::string budget = budget_text(a.attack, a.budget);
  return a.attack + (budget == "-" ? "" : " " + budget) + (a.space == "pixel" ? " (pixel)" : "");
}

bool is_largest(const Results::Attacked& a, const Results& r) {
  return std::none_of(r.attacked.begin(), r.attacked.end(), [&](const Results::Attacked& b) {
    return b.attack == a.attack && b.space == a.space && b.settings == a.settings && b.budget > a.budget;
  });
}

MeasuredWith joined(MeasuredWith with, const MeasuredWith& more) {
  with.insert(with.end(), more.begin(), more.end());
  return with;
}

std::string classes_text(const Results& r) {
  if (r.left_out == 0) return "all";
  return fmt::format("{} of {}", r.classes.size(), int64_t(r.classes.size()) + r.left_out);
}

ComparedRun compared(const RunRecord& run, Detail detail) {
  const std::string own = apps::evaluated_weights(*run.config);
  ComparedRun c{.name = run.name,
                .options = apps::compared_options(run),
                .attention = describe_attention(*run.config),
                .parameters = apps::parameter_count<nn::VisionTransformer>(*run.config),
                .weights = {},
                .programs = {},
                .problems = run.problems,
                .values = {}};
  const std::vector<Results> results = apps::of_last_step(run.results, run);
  const Results* main = main_evaluation(results, *run.config);
  const bool summary = detail == Detail::summary;
  for (const Results& r : results) {
    const MeasuredWith with = joined(apps::measured_with(r, "pictures", own), {{"classes", classes_text(r)}});
    const MeasuredWith drawn = joined(with, {{"seed", std::to_string(r.seed)}});
    const MeasuredWith changed = joined(drawn, {{"frost", r.frost.empty() ? "not recorded" : r.frost}});
    const bool is_main = &r == main;
    // What the others are compared with stands beside them, on the same pictures.
    const bool asks = detail == Detail::corruptions ? !r.corrupted.empty()
                      : detail == Detail::attacks   ? !r.attacked.empty()
                                                    : is_main || !r.corrupted.empty() || !r.attacked.empty();
    c.add({.name = "top-1", .percent = true, .with = with}, r.top1, 100, asks);
    if (asks) c.weights = own == "ema" ? "averaged" : "raw";
    if (asks && r.made_by.is_object()) c.programs = program(r);
    if (summary) {
      c.add({.name = "test loss", .decimals = 3, .best = Best::lowest, .place = 1, .with = with}, r.loss, 1,
            is_main);
      if (const auto mean = mean_corrupted_top1(r)) {
        const std::string set = apps::corruption_set(r.corrupted, true),
                          all = apps::corruption_set(r.corrupted);
        c.add({.name = set == "all at 1-5" ? "corrupted" : set,
               .percent = true,
               .with = set == all ? changed : joined(changed, {{"corruptions", all}})},
              *mean, 100);
      }
      if (const auto error = mean_corruption_error(r))
        c.add({.name = error->name(), .best = Best::lowest, .with = changed}, error->value, 100);
    }
    if (detail == Detail::corruptions)
      for (const std::string& name : data::corruption_names()) {
        Results one = r;
        std::erase_if(one.corrupted, [&](const Results::Corrupted& each) { return each.name != name; });
        if (const auto mean = mean_corrupted_top1(one))
          c.add({.name = apps::corruption_set(one.corrupted), .percent = true, .with = changed}, *mean, 100);
      }
    if (detail != Detail::corruptions)
      for (const Results::Attacked& a : r.attacked)
        c.add({.name = attack_name(a),
               .percent = true,
               .with = joined(drawn, {{a.attack, a.settings.empty() ? "one way" : a.settings}})},
              a.top1, 100, !summary || is_largest(a, r));
  }
  if (!summary) return c;
  if (results.empty()) {
    c.add({.name = "top-1 in training", .percent = true}, run.last("test_accuracy"), 100);
    c.add({.name = "test loss in training", .decimals = 3, .best = Best::lowest, .place = 1},
          run.last("test_loss"));
  }
  c.add_training(run);
  return c;
}

}  // namespace

apps::Comparison compare_records(const std::vector<RunRecord>& records, Detail detail) {
  std::vector<ComparedRun> runs;
  for (const RunRecord& record : records) runs.push_back(compared(record, detail));
  return apps::compare_runs(runs);
}

apps::Comparison compare_runs(const std::vector<std::string>& folders) {
  return compare_records(apps::read_runs<RunRecord>("classify", folders), Detail::summary);
}

}  // namespace pursuit::classify
