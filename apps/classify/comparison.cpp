#include <fmt/format.h>

#include "apps/classify/commands.h"
#include "apps/classify/run_record.h"
#include "apps/common/report.h"
#include "apps/training/comparison_page.h"

namespace pursuit::classify {

namespace {

using apps::Report;

void add_corruptions(Report& report, const std::vector<RunRecord>& records) {
  const apps::Comparison comparison = compare_records(records, Detail::corruptions);
  if (comparison.columns.empty()) return;
  report.section("Corruptions");
  report.chart(score_bars("Accuracy per corruption", comparison));
  report.table(transposed(to_table(comparison)),
               "Top-1 accuracy in %, mean over the severities. Numbers " + describe_shared(comparison) + ".");
}

void add_attacks(Report& report, const std::vector<RunRecord>& records) {
  const apps::Comparison comparison = compare_records(records, Detail::attacks);
  if (comparison.columns.empty()) return;
  report.section("Attacks");
  // One chart per attack and space, a line per run and set of pictures.
  for (const auto& [attack, title] : {std::pair{"fgsm", "FGSM"}, {"pgd", "PGD"}})
    for (const char* space : {"normalised", "pixel"}) {
      apps::LineChart chart{
          fmt::format("Accuracy under {}, {} space", title, space), "budget (1/255)", "%", {}};
      for (const RunRecord& run : records)
        for (const Results& r : apps::of_last_step(run.results, run))
          if (const auto curve = attack_curve(r, attack, space); !curve.empty())
            chart.series.push_back(
                {.name = fmt::format("{} ({} pictures)", run.name, r.count), .points = curve});
      if (!chart.series.empty()) report.chart(chart);
    }
  report.table(transposed(to_table(comparison)),
               "Top-1 accuracy under attack in %. Numbers " + describe_shared(comparison) + ".");
}

}  // namespace

void write_comparison(const std::string& file, const std::vector<std::string>& folders) {
  const std::vector<RunRecord> records = apps::read_runs<RunRecord>("classify", folders);
  std::vector<const apps::RunFolder*> runs;
  for (const RunRecord& r : records) runs.push_back(&r);
  const apps::ComparisonPage page{
      .app = "classify",
      .title = fmt::format("Comparison of {} image classifiers", records.size()),
      .curves = {{.title = "Training loss", .key = "loss", .unit = "cross-entropy", .smooth = true},
                 {.title = "Accuracy", .key = "test_accuracy", .unit = "%", .scale = 100}},
      .sections = [&](Report& report) {
        add_corruptions(report, records);
        add_attacks(report, records);
      }};
  apps::write_comparison(file, compare_records(records, Detail::summary), runs, page);
}

}  // namespace pursuit::classify
