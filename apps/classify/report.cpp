#include "apps/common/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "apps/classify/attention_map.h"
#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "apps/classify/run_record.h"
#include "apps/common/metrics.h"
#include "apps/common/run_lock.h"
#include "apps/common/text.h"
#include "apps/training/report_parts.h"
#include "engine/random.h"

namespace pursuit::classify {

namespace {

using apps::Report;

std::string title(const RunRecord& r) {
  return r.config ? "Vision transformer with " + describe_attention(*r.config) : "Image classifier";
}

std::string subtitle(const RunRecord& r) {
  if (!r.config) return r.name;
  const Config& c = *r.config;
  return fmt::format("{}: {}, {} x {} pictures, patch {}, {} blocks of width {}, seed {}", r.name,
                     c.data.empty() ? "drawn shapes" : apps::last_name(c.data), c.image_size, c.image_size,
                     c.patch, c.depth, c.dim, c.seed);
}

void add_highlights(Report& report, const RunRecord& r) {
  std::vector<apps::Highlight> h;
  if (r.results && r.results->count > 0)
    h.push_back({"Test accuracy", percent(r.results->top1), fmt::format("{} pictures", r.results->count)});
  else if (const auto accuracy = r.last("test_accuracy"))
    h.push_back({"Test accuracy", percent(*accuracy), "at the end of training"});
  if (r.results) {
    if (const auto corrupted = mean_corrupted_top1(r.results->corrupted))
      h.push_back({"Under corruption", percent(*corrupted),
                   fmt::format("mean, {} pictures each", r.results->corrupted[0].count)});
    if (const auto mce = mean_corruption_error(r.results->corrupted))
      h.push_back({"mCE", fmt::format("{:.1f}", 100 * *mce), "lower is better, AlexNet is 100"});
  }
  if (const auto parameters =
          r.config ? apps::parameter_count<nn::VisionTransformer>(*r.config) : std::nullopt)
    h.push_back({"Parameters", apps::format_count(double(*parameters))});
  apps::add_training_highlights(h, r);
  if (!h.empty()) report.highlights(h);
}

void add_training(Report& report, const RunRecord& r) {
  if (r.metrics.empty()) return;
  report.section("Training");
  const auto series = [&](const char* key) { return apps::metric_series(r.metrics, key); };
  const auto loss = series("loss"), test_loss = series("test_loss");
  if (!loss.empty()) {
    apps::LineChart chart{"Loss", "step", "cross-entropy", {}};
    chart.series.push_back({.name = "training", .points = loss, .smoothing = loss.size() > 20 ? 0.9 : 0});
    if (!test_loss.empty()) chart.series.push_back({.name = "test", .points = test_loss, .dashed = true});
    if (r.config && r.config->label_smoothing > 0 && !test_loss.empty())
      chart.caption =
          fmt::format("Training loss with label smoothing {}; test loss without.", r.config->label_smoothing);
    report.chart(chart);
  }
  if (const auto accuracy = apps::in_percent(series("test_accuracy")); !accuracy.empty())
    report.chart(apps::LineChart{"Test accuracy", "step", "%", {{.name = "top-1", .points = accuracy}}});
  add_rate_charts(report, r);
}

void add_test(Report& report, const RunRecord& r) {
  if (!r.results || r.results->count == 0) return;
  const Results& results = *r.results;
  report.section("Test");
  std::vector<std::pair<std::string, std::string>> values = {
      {"Data", fmt::format("{}, {} pictures", results.data, results.count)},
      {"Weights", fmt::format("{}step {}", results.ema ? "averaged, " : "", results.step)},
      {"Top-1 accuracy", percent(results.top1)}};
  if (results.classes.size() > 5) values.push_back({"Top-5 accuracy", percent(results.top5)});
  values.push_back({"Cross-entropy", fmt::format("{:.4f}", results.loss)});
  report.key_values(values);
  if (!results.confusion.empty())
    report.chart(apps::ConfusionMatrix{"Confusion matrix", results.classes, results.confusion,
                                       "Rows are the true classes, columns the predictions."});
}

void add_corruptions(Report& report, const RunRecord& r) {
  if (!r.results || r.results->corrupted.empty()) return;
  report.section("Corruptions");
  report.paragraph(
      "Accuracy on the test pictures after the corruptions of Hendrycks & Dietterich (2019), at severities "
      "from 1 "
      "(mild) to 5.");
  const std::vector<CorruptionSummary> summaries = summarise(r.results->corrupted);
  apps::BarChart bars{"Accuracy per corruption", "%, mean over the severities", {}, {{"top-1", {}}}};
  for (const CorruptionSummary& s : summaries) {
    bars.groups.push_back(s.name);
    bars.series[0].values.push_back(100 * s.top1);
  }
  report.chart(bars);

  std::map<int, std::pair<double, int>> by_severity;  // sum and count
  std::map<std::string, std::map<int, double>> cells;
  for (const Results::Corrupted& c : r.results->corrupted) {
    by_severity[c.severity].first += c.top1;
    by_severity[c.severity].second += 1;
    cells[c.name][c.severity] = c.top1;
  }
  apps::LineSeries mean{.name = "mean"};
  const bool same_pictures = r.results->count == r.results->corrupted[0].count;
  if (same_pictures) mean.points.emplace_back(0, 100 * r.results->top1);
  for (const auto& [severity, sum] : by_severity)
    mean.points.emplace_back(severity, 100 * sum.first / sum.second);
  if (mean.points.size() > 1)
    report.chart(apps::LineChart{.title = "Accuracy over severity",
                                 .x_label = "severity",
                                 .y_label = "%",
                                 .series = {mean},
                                 .caption = same_pictures
                                                ? "Mean over the corruptions; severity 0: not corrupted."
                                                : "Mean over the corruptions."});

  apps::Table table{{"corruption"}, {}};
  for (const auto& [severity, sum] : by_severity)
    table.columns.push_back(fmt::format("severity {}", severity));
  table.columns.push_back("mean");
  const bool has_ce =
      std::any_of(summaries.begin(), summaries.end(), [](const auto& s) { return s.ce.has_value(); });
  if (has_ce) table.columns.push_back("CE");
  for (const CorruptionSummary& s : summaries) {
    std::vector<std::string> row = {s.name};
    for (const auto& [severity, sum] : by_severity)
      row.push_back(cells[s.name].contains(severity) ? percent(cells[s.name][severity]) : "-");
    row.push_back(percent(s.top1));
    if (has_ce) row.push_back(s.ce ? fmt::format("{:.1f}", 100 * *s.ce) : "-");
    table.rows.push_back(row);
  }
  report.table(table, has_ce ? "Top-1 accuracy; CE is the error over the severities, AlexNet's being 100."
                             : "Top-1 accuracy.");
}

void add_attacks(Report& report, const RunRecord& r) {
  if (!r.results || r.results->attacked.empty()) return;
  report.section("Attacks");
  for (const char* space : {"normalised", "pixel"}) {
    apps::LineChart chart{"Accuracy under attack", "budget (1/255)", "%", {}};
    for (const auto& [attack, name] : {std::pair{"fgsm", "FGSM"}, {"pgd", "PGD"}})
      if (const auto curve = attack_curve(*r.results, attack, space); !curve.empty())
        chart.series.push_back({.name = name, .points = curve});
    chart.caption = fmt::format("Largest change of any {}.",
                                std::string(space) == "pixel" ? "pixel; pictures stay within black and white"
                                                              : "value of the normalised picture");
    if (!chart.series.empty()) report.chart(chart);
  }
  apps::Table table{{"attack", "space", "budget", "pictures", "top-1", "mean L2"}, {}};
  for (const Results::Attacked& a : r.results->attacked) {
    table.rows.push_back({a.attack, a.space, budget_text(a.attack, a.budget), std::to_string(a.count),
                          percent(a.top1), fmt::format("{:.3f}", a.l2)});
  }
  report.table(table);
}

// Test pictures from all over the split, one by chance from each twelfth, with what the model says of them.
void add_samples(Report& report, const RunRecord& r) {
  constexpr int64_t most = 12;
  report.section("What the model looks at");
  try {
    const LoadedModel loaded = load_model(r.folder);
    const Config& c = loaded.config;
    const auto test = open_data(c, data::Split::test);
    const int64_t count = std::min(most, test->size());
    apps::PictureGrid grid{
        .title = "Pictures of the test split",
        .pictures = {},
        .columns = 3,
        .caption =
            "Right of each picture the class token's attention in the last block, mean over the heads. The "
            "edge is green for right and red for wrong predictions; the percentage is the probability."};
    Random random(0);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = i * test->size() / count, end = (i + 1) * test->size() / count;
      const data::Sample sample = test->get(begin + random.below(end - begin));
      const Prediction p = look_at(loaded, sample.image);
      const int guess = p.ranking[0];
      const bool right = guess == sample.label;
      const std::string& name = c.classes[size_t(guess)];
      const std::string said = fmt::format("{} {:.0f}%", name, 100 * p.probabilities[size_t(guess)]);
      grid.pictures.push_back(
          {attention_pair(p, 112),
           right ? said : fmt::format("{}, is {}", said, c.classes.at(size_t(sample.label))),
           right ? apps::Mark::good : apps::Mark::bad});
    }
    report.pictures(grid);
  } catch (const std::exception& e) {
    report.paragraph(
        fmt::format("Left out, because the model or its test data could not be opened: {}", e.what()));
  }
}

// One command for the corruptions and one per space of the attacks.
std::string eval_commands(const RunRecord& r, const Results& results) {
  const std::string eval = "classify eval --checkpoint " + apps::quoted(r.folder) +
                           (results.ema ? " --ema" : "") +
                           (results.seed ? fmt::format(" --seed {}", results.seed) : "");
  std::string commands;
  if (!results.corrupted.empty())
    commands += eval + " " + apps::corruption_arguments(results.corrupted, results.count) + "\n";
  for (const char* space : {"normalised", "pixel"}) {
    std::set<std::string> attacks;
    std::set<double> budgets;
    int64_t count = 0;
    for (const Results::Attacked& a : results.attacked) {
      if (a.space != space) continue;
      attacks.insert(a.attack);
      count = a.count;
      if (a.attack == "fgsm" || a.attack == "pgd") budgets.insert(a.budget);
    }
    if (attacks.empty()) continue;
    commands += fmt::format("{} --attack {} --attack-space {}", eval, fmt::join(attacks, ","), space);
    if (!budgets.empty()) commands += fmt::format(" --budgets {}", fmt::join(budgets, ","));
    commands += count < results.count ? fmt::format(" --attack-limit {}\n", count) : "\n";
  }
  return commands;
}

void add_configuration(Report& report, const RunRecord& r) {
  if (!r.config) return;
  add_configuration(report, apps::options_to_json(*r.config),
                    {{"classes", std::to_string(r.config->classes.size())},
                     {"mean of the pixels", fmt::format("{:.4f}", fmt::join(r.config->mean, ", "))},
                     {"their standard deviation", fmt::format("{:.4f}", fmt::join(r.config->std, ", "))}});
  report.section("Reproduce");
  report.code(apps::train_command("classify", r.folder, apps::options_to_json(Config{}),
                                  apps::options_to_json(*r.config)) +
              "\n" + (r.results ? eval_commands(r, *r.results) : "") + "classify report " +
              apps::quoted(r.folder) + "\n");
}

}  // namespace

void write_report(const std::string& folder) {
  const apps::FolderLock lock(folder);
  const RunRecord record(folder);
  Report report(title(record), subtitle(record));
  add_highlights(report, record);
  add_training(report, record);
  add_test(report, record);
  add_corruptions(report, record);
  add_attacks(report, record);
  add_samples(report, record);
  add_configuration(report, record);
  apps::finish_report(report, record);
}

}  // namespace pursuit::classify
