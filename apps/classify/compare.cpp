#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "apps/classify/pipeline.h"
#include "apps/classify/results.h"
#include "apps/page/heatmap.h"
#include "data/corruptions.h"

namespace pursuit::classify {

using apps::Best, apps::Column, apps::ComparedRun, apps::MeasuredWith, apps::Report;

namespace {

// Columns of a comparison: the main numbers, one per corruption, or one per attack and budget.
enum class Detail { summary, corruptions, attacks };

// "wide" of "wide-0": the runs of several seeds share a column.
std::string without_seed(const std::string& run) {
  const size_t end = run.find_last_not_of("0123456789");
  return end != std::string::npos && end > 0 && end + 1 < run.size() && run[end] == '-' ? run.substr(0, end)
                                                                                        : run;
}

std::string attack_name(const Results::Attacked& a) {
  const std::string budget = budget_text(a.attack, a.budget);
  return a.attack + (budget == "-" ? "" : " " + budget) + (a.space == "pixel" ? " (pixel)" : "") +
         (a.surrogate.empty() ? ""
                              : fmt::format(" by {} ({})", without_seed(a.surrogate), a.surrogate_attention));
}

bool is_largest(const Results::Attacked& a, const Results& r) {
  return std::none_of(r.attacked.begin(), r.attacked.end(), [&](const Results::Attacked& b) {
    return b.attack == a.attack && b.space == a.space && b.settings == a.settings && b.budget > a.budget &&
           b.surrogate == a.surrogate;
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
  const bool summary = detail == Detail::summary;
  ComparedRun c = apps::compared_run(run, summary);
  const Results* main = main_evaluation(run.newest, *run.config);
  for (const Results& r : run.newest) {
    const MeasuredWith with = joined(apps::measured_with(r, "pictures", own), {{"classes", classes_text(r)}});
    const MeasuredWith drawn = joined(with, {{"seed", std::to_string(r.seed)}});
    const MeasuredWith changed = joined(drawn, {{"frost", r.frost.empty() ? "not recorded" : r.frost}});
    const bool is_main = &r == main;
    // Clean accuracy is a column where corrupted or attacked accuracies of the same pictures are.
    const bool asks = detail == Detail::corruptions ? !r.corrupted.empty()
                      : detail == Detail::attacks   ? !r.attacked.empty()
                                                    : is_main || !r.corrupted.empty() || !r.attacked.empty();
    c.add({.name = "top-1", .percent = true, .with = with}, r.scores.top1, 100, asks);
    if (asks) c.measured(r, own);
    if (summary) {
      c.add({.name = "test loss", .decimals = 3, .best = Best::lowest, .place = 1, .with = with},
            r.scores.loss, 1, is_main);
      c.add({.name = "ECE", .best = Best::lowest, .percent = true, .with = with}, r.scores.ece, 100, is_main);
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
        std::erase_if(one.corrupted, [&](const auto& each) { return each.name != name; });
        if (const auto mean = mean_corrupted_top1(one))
          c.add({.name = apps::corruption_set(one.corrupted), .percent = true, .with = changed}, *mean, 100);
      }
    if (detail != Detail::corruptions)
      for (const Results::Attacked& a : r.attacked)
        c.add({.name = attack_name(a),
               .percent = true,
               .with = a.settings.empty() ? drawn : joined(drawn, {{a.attack, a.settings}})},
              a.top1, 100, !summary || is_largest(a, r));
  }
  if (summary && run.newest.empty()) {
    c.add({.name = "top-1 in training", .percent = true}, run.last("test_accuracy"), 100);
    c.add({.name = "test loss in training", .decimals = 3, .best = Best::lowest, .place = 1},
          run.last("test_loss"));
  }
  return c;
}

apps::Comparison compare(const std::vector<RunRecord>& records, Detail detail) {
  return apps::compare(records, [&](const RunRecord& run) { return compared(run, detail); });
}

void add_corruptions(Report& report, const apps::Comparison& comparison) {
  if (comparison.columns.empty()) return;
  report.section("Corruptions");
  report.chart(score_bars("Accuracy per corruption", comparison));
  report.table(transposed(to_table(comparison)),
               "Top-1 accuracy in %, mean over the severities. Numbers " + describe_shared(comparison) + ".");
}

std::string evaluated(const Results& r) { return fmt::format("{}, {} pictures", r.data, r.count); }

void add_attacks(Report& report, const apps::Comparison& comparison, const std::vector<RunRecord>& records) {
  if (comparison.columns.empty()) return;
  report.section("Attacks");
  std::vector<const RunRecord*> runs;
  std::set<std::string> pictures;
  for (const apps::RunFolder* drawn : drawn_runs(apps::folders_of(records))) {
    runs.push_back(static_cast<const RunRecord*>(drawn));
    for (const Results& r : runs.back()->newest) pictures.insert(evaluated(r));
  }
  // One chart per attack, space and set of pictures. Runs without a line in it keep their colours.
  for (const auto& [attack, title, axis] : swept_attacks())
    for (const char* space : {"normalised", "pixel"})
      for (const std::string& set : pictures) {
        apps::LineChart chart{fmt::format("Accuracy under {}, {} space", title, space), axis, "%", {}};
        chart.caption = set;
        bool any = false;
        for (const RunRecord* run : runs) {
          apps::LineSeries line{.name = run->name};
          for (const Results& r : run->newest)
            if (line.points.empty() && evaluated(r) == set) line.points = attack_curve(r, attack, space);
          any = any || !line.points.empty();
          chart.series.push_back(std::move(line));
        }
        if (any) report.chart(chart);
      }
  report.table(transposed(to_table(comparison)),
               "Top-1 accuracy under attack in %. Numbers " + describe_shared(comparison) + ".");
}

// The same pictures, clean and with noise, as the runs see them.
void add_pictures(Report& report, std::vector<const apps::RunFolder*> runs) {
  constexpr size_t most_runs = 8;
  constexpr int64_t count = 3;
  constexpr int side = 112, severity = 3;
  constexpr const char* noise = "gaussian_noise";
  runs.resize(std::min(runs.size(), most_runs));
  apps::PictureGrid grid{
      .title = "",
      .pictures = {},
      .columns = int(runs.size()),
      .caption =
          fmt::format("Test pictures beside the class token's attention in the last block, mean over the "
                      "heads; every second row with {} at severity {}.",
                      noise, severity)};
  std::vector<LoadedModel> models;
  for (const apps::RunFolder* run : runs) {
    models.push_back(apps::load_model<Config>(run->folder));
    grid.headings.push_back(run->name);
    if (models.back().config.classes != models[0].config.classes)
      return report.paragraph("None: the runs know different classes.");
  }
  const auto pictures = open_data(models[0].config, data::Split::test);
  for (int64_t i = 0; i < std::min(count, pictures->size()); ++i) {
    const data::Sample sample = pictures->get(i * pictures->size() / count);
    for (const bool noisy : {false, true})
      for (const LoadedModel& model : models) {
        data::Image view = evaluation_view(model.config, sample.image);
        if (noisy)
          view =
              data::corrupt(view, noise, severity, data::corruption_seed(0, noise, severity, sample.index));
        const Prediction p = look_at(model, view, -1, pictures->present_classes());
        const int guess = p.ranking[0];
        grid.pictures.push_back(
            {apps::attention_pair(p.view, p.attention, p.grid, side),
             fmt::format("{} {:.0f}%", shown_class(model.config, model.config.classes[size_t(guess)]),
                         100 * p.probabilities[size_t(guess)]),
             guess == sample.label ? apps::Mark::good : apps::Mark::bad});
      }
  }
  report.pictures(grid);
}

}  // namespace

ComparedRun compared(const RunRecord& run) { return compared(run, Detail::summary); }

apps::ComparisonPage comparison_page(const std::vector<RunRecord>& runs) {
  const apps::Comparison corruptions = compare(runs, Detail::corruptions),
                         attacks = compare(runs, Detail::attacks);
  return {.title = fmt::format("Comparison of {} image classifiers", runs.size()),
          .curves = training_curves(),
          .details = {{"Corruptions", corruptions}, {"Attacks", attacks}},
          .sections =
              [&runs, corruptions, attacks](Report& report) {
                add_corruptions(report, corruptions);
                add_attacks(report, attacks, runs);
              },
          .samples = [&runs](Report& report) { add_pictures(report, drawn_runs(apps::folders_of(runs))); }};
}

}  // namespace pursuit::classify
