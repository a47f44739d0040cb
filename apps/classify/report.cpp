#include "apps/page/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "apps/classify/results.h"
#include "apps/page/heatmap.h"
#include "apps/study/inspection.h"
#include "engine/base/random.h"

namespace pursuit::classify {

namespace {

using apps::Report;

std::string subtitle(const RunRecord& r) {
  if (!r.config) return r.name;
  const Config& c = *r.config;
  const std::string sizes = attends(c)
                                ? fmt::format("patch {}, {} blocks of width {}", c.patch, c.depth, c.dim)
                                : describe_model(c);
  return fmt::format("{}: {}, {} x {} pictures, {}, seed {}", r.name,
                     c.data.empty() ? "drawn shapes" : apps::last_name(c.data), c.image_size, c.image_size,
                     sizes, c.seed);
}

// The test split's name in the data set: "test", "val".
std::string split_of(const RunRecord& r) {
  return r.config && !r.config->test_split.empty() ? r.config->test_split : "test";
}
// For example "Test accuracy".
std::string split_title(const RunRecord& r, const std::string& what) {
  std::string split = split_of(r);
  split[0] = char(std::toupper(static_cast<unsigned char>(split[0])));
  return split + " " + what;
}

std::vector<apps::Highlight> highlights(const RunRecord& r, const Results* main) {
  std::vector<apps::Highlight> h;
  if (main)
    h.push_back({main->data == describe_data(*r.config) ? split_title(r, "accuracy") : "Test accuracy",
                 percent(main->scores.top1), fmt::format("{}, {} pictures", main->data, main->count)});
  else if (const auto accuracy = r.last("test_accuracy"))
    h.push_back({split_title(r, "accuracy"), percent(*accuracy), "so far in training"});
  for (const Results& results : r.newest) {
    if (const auto corrupted = mean_corrupted_top1(results))
      h.push_back(
          {"Under corruption", percent(*corrupted),
           fmt::format("mean of {}; {} pictures, clean {}", apps::corruption_set(results.corrupted, true),
                       results.count, percent(results.scores.top1))});
    if (const auto error = mean_corruption_error(results); error && error->relative)
      h.push_back({"mCE", fmt::format("{:.1f}", 100 * error->value), "lower is better, AlexNet is 100"});
    else if (error)
      h.push_back({"Mean corruption error", percent(error->value), "lower is better"});
  }
  return h;
}

// An evaluation's conditions, for its heading.
std::string describe(const Results& results) {
  return fmt::format("{}, seed {}", apps::describe(results, "pictures"), results.seed);
}

apps::LineChart reliability_diagram(const nn::Calibration& calibration) {
  apps::LineSeries bins{.name = "model"};
  for (const nn::Calibration::Bin& b : calibration.bins)
    if (b.count > 0)
      bins.points.emplace_back(100 * b.confidence / double(b.count),
                               100 * double(b.correct) / double(b.count));
  return {
      .title = "Reliability",
      .x_label = "confidence (%)",
      .y_label = "accuracy (%)",
      .series = {bins, {.name = "calibrated", .points = {{0, 0}, {100, 100}}, .dashed = true}},
      .caption = fmt::format(
          "Mean confidence and accuracy of the pictures in {} bins of confidence, without empty bins. The "
          "expected calibration error is the mean distance to the dashed line, over the pictures.",
          calibration.bins.size())};
}

void add_test(Report& report, const RunRecord& r, const Results* main) {
  if (!main) return;
  report.section("Accuracy");
  const Scores& s = main->scores;
  std::vector<std::pair<std::string, std::string>> values = {
      {"Measured on", apps::describe(*main, "pictures")},
      {"By", program(*main)},
      {"Top-1 accuracy", percent(s.top1)}};
  if (main->classes.size() > 5) values.push_back({"Top-5 accuracy", percent(s.top5)});
  if (main->left_out > 0)
    values.push_back(
        {"Classes", fmt::format("{} of the model's {}; the logits of the others are left out",
                                main->classes.size(), int64_t(main->classes.size()) + main->left_out)});
  if (!std::isnan(s.loss)) values.push_back({"Cross-entropy", fmt::format("{:.4f}", s.loss)});
  if (!std::isnan(s.ece)) values.push_back({"Expected calibration error", percent(s.ece)});
  report.key_values(values);
  if (main->calibration.count() > 0) report.chart(reliability_diagram(main->calibration));
  if (main->confusion.empty()) return;
  std::vector<std::string> names;
  for (const std::string& name : main->classes)
    names.push_back(r.config ? shown_class(*r.config, name) : name);
  report.chart(apps::ConfusionChart{"Confusion matrix", names, main->confusion,
                                    "Rows are the true classes, columns the predictions."});
}

void add_corruptions(Report& report, const Results& results) {
  report.heading(describe(results) + (results.frost.empty() ? "" : ", frost " + results.frost));
  const std::vector<CorruptionSummary> summaries = summarise(results);
  apps::BarChart bars{"Accuracy per corruption", "%, mean over the severities", {}, {{"top-1", {}}}};
  for (const CorruptionSummary& s : summaries) {
    bars.groups.push_back(s.name);
    bars.series[0].values.push_back(100 * s.top1);
  }
  report.chart(bars);

  std::map<int, std::pair<double, int>> by_severity;  // sum and count
  for (const auto& c : results.corrupted) {
    by_severity[c.severity].first += c.scores.top1;
    by_severity[c.severity].second += 1;
  }
  apps::LineSeries mean{.name = "mean"};
  if (!std::isnan(results.scores.top1)) mean.points.emplace_back(0, 100 * results.scores.top1);
  // Only severities at which all corruptions were evaluated are comparable.
  for (const auto& [severity, sum] : by_severity)
    if (sum.second == int(summaries.size())) mean.points.emplace_back(severity, 100 * sum.first / sum.second);
  if (mean.points.size() > 1)
    report.chart(apps::LineChart{.title = "Accuracy over severity",
                                 .x_label = "severity",
                                 .y_label = "%",
                                 .series = {mean},
                                 .caption = "Mean over the corruptions; severity 0: not corrupted."});

  apps::Table table =
      apps::corruption_table(results.corrupted, [](const Scores& s) { return percent(s.top1); });
  table.columns.push_back("mean");
  const bool relative = !summaries.empty() && summaries[0].ce;
  if (relative) table.columns.push_back("CE");
  for (size_t i = 0; i < summaries.size(); ++i) {
    const CorruptionSummary& s = summaries[i];
    table.rows[i].push_back(percent(s.top1));
    if (relative) table.rows[i].push_back(s.ce ? fmt::format("{:.1f}", 100 * *s.ce) : "-");
  }
  report.table(
      table,
      fmt::format("Top-1 accuracy on {} pictures, {} clean.{}", results.count, percent(results.scores.top1),
                  relative ? " CE is the error over the severities, AlexNet's being 100." : ""));
}

void add_attacks(Report& report, const Results& results) {
  report.heading(describe(results));
  for (const char* space : {"normalised", "pixel"}) {
    std::map<std::string, apps::LineChart> charts;  // by axis
    for (const Swept& s : swept_attacks())
      if (const auto curve = attack_curve(results, s.attack, space); curve.size() > 1) {
        apps::LineChart& chart =
            charts.try_emplace(s.axis, apps::LineChart{"Accuracy under attack", s.axis, "%", {}})
                .first->second;
        chart.series.push_back({.name = s.title, .points = curve});
        chart.caption =
            fmt::format("Largest change of {}. Budget 0: the same {} pictures without attack.",
                        std::string(space) == "pixel" ? "pixels; pictures stay within black and white"
                                                      : "the normalised picture",
                        results.count);
      }
    for (const auto& [axis, chart] : charts) report.chart(chart);
  }
  apps::Table table{{"attack", "space", "budget", "pictures", "top-1", "mean L2", "how"}, {}};
  table.rows.push_back(
      {"none", "-", "-", std::to_string(results.count), percent(results.scores.top1), "-", ""});
  for (const Results::Attacked& a : results.attacked)
    table.rows.push_back({attack_title(a), a.space, budget_text(a.attack, a.budget),
                          std::to_string(results.count), percent(a.top1), fmt::format("{:.3f}", a.l2),
                          a.settings});
  report.table(table);
  for (const std::string& note : masking_notes(results)) report.paragraph(note);
}

// Shows test pictures with predictions: a random one from each twelfth of the split.
void add_samples(Report& report, const RunRecord& r) {
  constexpr int64_t most = 12;
  const LoadedModel loaded = apps::load_model<Config>(r.folder);
  const Config& c = loaded.config;
  const auto test = open_data(c, evaluated_split(c));
  const int64_t count = std::min(most, test->size());
  apps::PictureGrid grid{
      .title = "Pictures of the " + (c.test_split.empty() ? "tested" : c.test_split) + " split",
      .pictures = {},
      .columns = 3,
      .caption =
          std::string(attends(c)
                          ? "Right of each picture the class token's attention in the last block, mean "
                            "over the heads. "
                          : "") +
          "The edge is green for right and red for wrong predictions; the percentage is the probability."};
  Random random(0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * test->size() / count, end = (i + 1) * test->size() / count;
    const data::Sample sample = test->get(begin + random.below(end - begin));
    const Prediction p = look_at(loaded, sample.image, -1, test->present_classes());
    const int guess = p.ranking[0];
    const bool right = guess == sample.label;
    const std::string name = shown_class(c, c.classes[size_t(guess)]);
    const std::string said = fmt::format("{} {:.0f}%", name, 100 * p.probabilities[size_t(guess)]);
    grid.pictures.push_back(
        {p.attention.empty() ? data::to_rgb(data::resize(p.view, 112, 112, data::Filter::bicubic))
                             : apps::attention_pair(p.view, p.attention, p.grid, 112),
         right ? said : fmt::format("{}, is {}", said, shown_class(c, c.classes.at(size_t(sample.label)))),
         right ? apps::Mark::good : apps::Mark::bad});
  }
  report.pictures(grid);
}

// Attacks that one command repeats: in each norm all have the same budgets.
struct SharedCommand {
  std::set<std::string> names;
  std::map<attacks::Norm, std::set<double>> budgets;
};

std::vector<SharedCommand> shared_commands(const std::map<std::string, std::set<double>>& budgets_of_attack) {
  std::vector<SharedCommand> commands;
  for (const auto& attack : budgets_of_attack) {
    const std::optional<attacks::Norm> norm = norm_of(attack.first);
    const auto fits = [&](const SharedCommand& c) {
      return !norm || !c.budgets.contains(*norm) || c.budgets.at(*norm) == attack.second;
    };
    auto at = std::find_if(commands.begin(), commands.end(), fits);
    if (at == commands.end()) at = commands.insert(at, SharedCommand());
    at->names.insert(attack.first);
    if (norm) at->budgets[*norm] = attack.second;
  }
  return commands;
}

// Adds the commands that repeat an evaluation: for the corruptions at the same severities, for each set of outliers,
// and for the attacks in one space with the same arguments and budgets.
void add_commands(std::vector<std::string>& commands, const RunRecord& r, const Results& results) {
  const std::string eval = "classify eval --checkpoint " + apps::quoted(r.folder) +
                           (results.options.empty() ? "" : " " + results.options);
  if (results.corrupted.empty() && results.attacked.empty() && results.outliers.empty())
    commands.push_back(eval);
  for (const auto& corrupted : apps::by_severities(results.corrupted))
    commands.push_back(eval + apps::corruption_arguments(corrupted));
  for (const Results::Outliers& o : results.outliers) commands.push_back(eval + " " + o.arguments);
  std::map<std::pair<std::string, std::string>, std::map<std::string, std::set<double>>>
      attacks;  // budgets by attack, by space and arguments
  for (const Results::Attacked& a : results.attacked)
    attacks[{a.space, a.arguments}][a.attack].insert(a.budget);
  for (const auto& [how, budgets_of_attack] : attacks)
    for (const SharedCommand& together : shared_commands(budgets_of_attack)) {
      const auto& [space, arguments] = how;
      std::string command =
          fmt::format("{} --attack {} --attack-space {}", eval, fmt::join(together.names, ","), space);
      if (!arguments.empty()) command += " " + arguments;
      for (const auto& [norm, budgets] : together.budgets)
        command += fmt::format(" {} {}", norm == attacks::Norm::linf ? "--budgets" : "--l2-budgets",
                               fmt::join(budgets, ","));
      commands.push_back(command);
    }
}

}  // namespace

apps::Cells cells_of(const Results& e) {
  const auto corrupted = mean_corrupted_top1(e);
  return {{"seed", std::to_string(e.seed)},
          {"top-1", percent(e.scores.top1)},
          {"corrupted", corrupted ? percent(*corrupted) + ", " + apps::corruption_set(e.corrupted) : "-"},
          {"attacks", std::to_string(e.attacked.size())}};
}

apps::RunPage page_of(RunRecord& r) {
  const Results* main = r.config ? main_evaluation(r.newest, *r.config) : nullptr;
  if (main && std::isnan(main->scores.top1)) main = nullptr;  // of corrupted pictures alone
  apps::RunPage page;
  page.title = r.config ? model_title(*r.config) : "Image classifier";
  page.subtitle = subtitle(r);
  page.highlights = highlights(r, main);
  page.curves = training_curves(&r);
  page.results = [&r, main](Report& report) {
    add_test(report, r, main);
    apps::add_section(
        report, "Corruptions",
        "Accuracy on the pictures after the corruptions of Hendrycks & Dietterich (2019), at severities from "
        "1 (mild) to 5.",
        r.newest, [](const Results& e) { return !e.corrupted.empty(); },
        [&](const Results& e) { add_corruptions(report, e); });
    apps::add_section(
        report, "Attacks", "", r.newest, [](const Results& e) { return !e.attacked.empty(); },
        [&](const Results& e) { add_attacks(report, e); });
    apps::add_section(
        report, "Outliers",
        "How well pictures of no class are told from those of the data: the area under the precision-recall "
        "curve by the largest probability and by the energy of the logits, among the outliers' classes.",
        r.newest, [](const Results& e) { return !e.outliers.empty(); },
        [&](const Results& e) {
          report.heading(describe(e));
          report.table(outlier_table(e));
        });
  };
  apps::show_inspections(r, page);
  page.samples_title = r.config && !attends(*r.config) ? "Predictions" : "What the model looks at";
  page.samples = [&r](Report& report) { add_samples(report, r); };
  for (const Results& results : r.newest) add_commands(page.commands, r, results);
  if (r.config)
    page.facts = {{"classes", std::to_string(r.config->classes.size())},
                  {"mean of the pixels", fmt::format("{:.4f}", fmt::join(r.config->mean, ", "))},
                  {"their standard deviation", fmt::format("{:.4f}", fmt::join(r.config->std, ", "))}};
  return page;
}

std::vector<apps::Curve> training_curves(const RunRecord* r) {
  const std::string split = r ? split_of(*r) : "test";
  apps::Curve loss{.title = "Loss",
                   .unit = "cross-entropy",
                   .lines = {{.key = "loss", .name = "training", .smooth = true},
                             {.key = "test_loss", .name = split, .dashed = true}}};
  if (r && r->config && r->config->label_smoothing > 0)
    loss.caption = fmt::format("Training loss with label smoothing {}; {} loss without.",
                               r->config->label_smoothing, split);
  return {loss, apps::percent_curve(r ? split_title(*r, "accuracy") : "Accuracy", "test_accuracy", "top-1")};
}

}  // namespace pursuit::classify
