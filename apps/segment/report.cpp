#include "apps/page/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "apps/pictures/mask_picture.h"
#include "apps/segment/commands.h"
#include "apps/segment/pipeline.h"
#include "apps/segment/results.h"
#include "apps/study/inspection.h"
#include "data/corruptions.h"
#include "data/resize.h"

namespace pursuit::segment {

using apps::ComparedRun, apps::MeasuredWith, apps::Report;

namespace {

std::string subtitle(const RunRecord& r) {
  if (!r.config) return r.name;
  const Config& c = *r.config;
  return fmt::format("{}: {}, windows of {} x {}, patch {}, {} blocks of width {}, {} decoder, seed {}",
                     r.name, describe_data(c, data::Split::train), c.width, c.height, c.patch, c.depth, c.dim,
                     choice_name(c.decoder), c.seed);
}

std::vector<apps::Highlight> highlights(const RunRecord& r, const Results* main) {
  std::vector<apps::Highlight> h;
  if (main) {
    h.push_back({"mIoU", percent(main->scores.mean_iou) + "%",
                 fmt::format("{}, {} pictures; {}", main->data, main->count, main->views)});
    h.push_back({"Pixel accuracy", percent(main->scores.pixel_accuracy) + "%"});
    h.push_back({"Mean accuracy", percent(main->scores.mean_accuracy) + "%", "of the classes"});
  }
  for (const Results& results : r.newest)
    if (!results.corrupted.empty()) {
      const int mildest = *severities_of(results.corrupted).begin();
      auto at = results.corrupted;
      std::erase_if(at, [&](const auto& c) { return c.severity != mildest; });
      h.push_back({"mIoU under corruption", percent(mean_corrupted(at, mildest)->mean_iou) + "%",
                   fmt::format("mean of {}; {}, {} pictures, clean {}%", apps::corruption_set(at, true),
                               results.data, results.count, percent(results.scores.mean_iou))});
    }
  return h;
}

std::vector<apps::Curve> training_curves(const std::string& split) {
  return {
      {.title = "Loss",
       .unit = "cross-entropy",
       .lines = {{.key = "loss", .name = "training", .smooth = true}}},
      apps::percent_curve("mIoU on the " + split + " split", "mean_iou", "mIoU"),
      apps::percent_curve("Pixel accuracy on the " + split + " split", "pixel_accuracy", "pixel accuracy")};
}

std::string describe(const Results& results) {
  return apps::describe(results, "pictures") + "; " + results.views;
}

void add_classes(Report& report, const Results* main) {
  if (!main) return;
  report.section("Classes");
  report.key_values(
      {{"Measured on", apps::describe(*main, "pictures")}, {"Views", main->views}, {"By", program(*main)}});
  apps::BarChart bars{"IoU of each class", "%", {}, {{"IoU", {}}}};
  for (size_t c = 0; c < main->classes.size(); ++c) {
    bars.groups.push_back(main->classes[c]);
    bars.series[0].values.push_back(main->iou[c] < 0 ? NAN : 100 * main->iou[c]);
  }
  report.chart(bars);
  report.table(class_table(*main), "In %; classes that appear nowhere have no score.");
}

void add_corruptions(Report& report, const Results& results) {
  report.heading(fmt::format("{}, seed {}{}", describe(results), results.seed,
                             results.frost.empty() ? "" : ", frost " + results.frost));
  apps::BarChart bars{"mIoU under each corruption", "%", {"none"}, {}};
  for (const std::string& name : data::corruption_names())
    if (std::any_of(results.corrupted.begin(), results.corrupted.end(),
                    [&](const auto& c) { return c.name == name; }))
      bars.groups.push_back(name);
  for (const int s : severities_of(results.corrupted)) {
    bars.series.push_back({fmt::format("severity {}", s), std::vector<double>(bars.groups.size(), NAN)});
    std::vector<double>& values = bars.series.back().values;
    if (bars.series.size() == 1 && results.scores.mean_iou >= 0) values[0] = 100 * results.scores.mean_iou;
    for (const auto& c : results.corrupted)
      for (size_t g = 1; g < bars.groups.size(); ++g)
        if (c.severity == s && c.name == bars.groups[g] && c.scores.mean_iou >= 0)
          values[g] = 100 * c.scores.mean_iou;
  }
  report.chart(bars);
  report.table(corruption_table(results), fmt::format("mIoU in %, on {} pictures; clean: {}.", results.count,
                                                      percent(results.scores.mean_iou)));
}

void add_attacks(Report& report, const Results& results) {
  report.heading(fmt::format("{}, seed {}", describe(results), results.seed));
  apps::LineChart chart{"mIoU under attack", "budget (1/255)", "%", {}};
  std::map<std::string, std::map<double, double>> curves;
  for (const Results::Attacked& a : results.attacked)
    if (a.scores.mean_iou >= 0)
      curves[a.attack + (a.arguments.empty() ? "" : ", " + a.settings)][a.budget] = 100 * a.scores.mean_iou;
  for (auto& [attack, curve] : curves) {
    if (results.scores.mean_iou >= 0) curve[0] = 100 * results.scores.mean_iou;
    chart.series.push_back({.name = attack, .points = {curve.begin(), curve.end()}});
  }
  report.chart(chart);
  report.table(attack_table(results), "In %, on " + std::to_string(results.count) + " pictures.");
}

// Rows of picture, label and the predictions of all runs; the pictures are spread evenly over the split.
void add_samples(Report& report, const std::vector<const apps::RunFolder*>& runs, bool of_test) {
  constexpr int64_t most = 6;
  constexpr int side = 240;
  std::vector<apps::LoadedModel<Config>> models;
  std::vector<Predictor> predictors;
  for (const apps::RunFolder* run : runs) {
    models.push_back(apps::load_model<Config>(run->folder));
    predictors.push_back(predictor_of(*models.back().model, models.back().config));
    if (models.back().config.classes != models[0].config.classes)
      return report.paragraph("None: the runs know different classes.");
  }
  const Config& c = models[0].config;
  const auto pictures = open_data(c, of_test ? data::Split::test : c.validation);
  const int64_t count = std::min(most, pictures->size());
  apps::PictureGrid grid{.title = fmt::format("Pictures of the {} split", choice_name(pictures->split())),
                         .pictures = {},
                         .columns = 2 + int(runs.size()),
                         .headings = {"picture", "label"},
                         .caption = "Ignored pixels are black."};
  for (const apps::RunFolder* run : runs)
    grid.headings.push_back(runs.size() == 1 ? "prediction" : run->name);
  const auto add = [&](const data::Image& picture, const std::string& caption) {
    const double scale = std::min(1.0, double(side) / std::min(picture.width, picture.height));
    grid.pictures.push_back({data::resize(picture, std::max(1, int(picture.width * scale)),
                                          std::max(1, int(picture.height * scale)), data::Filter::box),
                             caption});
  };
  std::vector<bool> shown(c.classes.size());
  for (int64_t i = 0; i < count; ++i) {
    const data::SegmentationSample sample = pictures->get((2 * i + 1) * pictures->size() / (2 * count));
    const auto show = [&](const data::Image& map, const std::string& caption) {
      add(apps::colour_mask(map, c.colours), caption);
      for (const apps::ClassShare& s : apps::class_shares(map, int64_t(c.classes.size())))
        shown[s.index] = true;
    };
    add(sample.image, "");
    show(sample.labels, "");
    for (const Predictor& predictor : predictors) {
      const data::Image classes = predictor.classes_of(sample.image);
      nn::ConfusionMatrix matrix(int64_t(c.classes.size()), data::kIgnoredLabel);
      matrix.add(numbers(classes), numbers(sample.labels));
      show(classes, percent(matrix.overall_accuracy()) + " % of the pixels right");
    }
  }
  report.pictures(grid);
  std::vector<std::pair<data::Rgb, std::string>> colours;
  for (size_t index = 0; index < shown.size(); ++index)
    if (shown[index]) colours.emplace_back(c.colours.at(index), c.classes[index]);
  report.swatches("Colours", colours);
}

// Empty for a score of -1.
std::optional<double> known(double score) { return score < 0 ? std::nullopt : std::optional(score); }

}  // namespace

apps::Cells cells_of(const Results& e) {
  return {{"seed", std::to_string(e.seed)},
          {"views", e.views},
          {"mIoU", percent(e.scores.mean_iou)},
          {"corrupted", e.corrupted.empty() ? "-" : apps::corruption_set(e.corrupted)}};
}

apps::RunPage page_of(RunRecord& r) {
  const Results* main = r.config ? main_evaluation(r.newest, *r.config) : nullptr;
  if (main && main->classes.empty()) main = nullptr;  // of corrupted pictures alone
  apps::RunPage page;
  page.title = r.config ? "Segmenter with " + describe_attention(*r.config) : "Semantic segmentation";
  page.subtitle = subtitle(r);
  page.highlights = highlights(r, main);
  page.curves = training_curves(r.config ? choice_name(r.config->validation) : "validation");
  page.results = [&r, main](Report& report) {
    add_classes(report, main);
    apps::add_section(
        report, "Corruptions",
        "The pictures after the corruptions of Hendrycks & Dietterich (2019), "
        "at severities from 1 (mild) to 5.",
        r.newest, [](const Results& e) { return !e.corrupted.empty(); },
        [&](const Results& e) { add_corruptions(report, e); });
    apps::add_section(
        report, "Attacks",
        "The pixels of the model's view are changed by at most the budget, and stay within black and white, "
        "to raise the loss of the labels.",
        r.newest, [](const Results& e) { return !e.attacked.empty(); },
        [&](const Results& e) { add_attacks(report, e); });
  };
  apps::show_inspections(r, page);
  page.samples_title = "What the model sees";
  page.samples = [&r, main](Report& report) {
    const bool of_test = main && main->data == describe_data(*r.config, data::Split::test);
    add_samples(report, {&r}, of_test);
  };
  if (r.config) page.facts = {{"classes", std::to_string(r.config->classes.size())}};
  for (const Results& e : r.newest) {
    const std::string eval =
        "segment eval --checkpoint " + apps::quoted(r.folder) + (e.options.empty() ? "" : " " + e.options);
    if (e.corrupted.empty() && e.attacked.empty()) page.commands.push_back(eval);
    for (const auto& corrupted : apps::by_severities(e.corrupted))
      page.commands.push_back(eval + apps::corruption_arguments(corrupted));
    std::map<std::pair<std::string, std::string>, std::set<double>> budgets;  // by arguments and attack
    for (const Results::Attacked& a : e.attacked) budgets[{a.arguments, a.attack}].insert(a.budget);
    std::map<std::pair<std::string, std::set<double>>, std::vector<std::string>> attacks;
    for (const auto& [attack, of_attack] : budgets)
      attacks[{attack.first, of_attack}].push_back(attack.second);
    for (const auto& [how, names] : attacks)
      page.commands.push_back(fmt::format("{} --attack {} --budgets {}{}{}", eval, fmt::join(names, ","),
                                          fmt::join(how.second, ","), how.first.empty() ? "" : " ",
                                          how.first));
  }
  return page;
}

ComparedRun compared(const RunRecord& run) {
  const std::string own = apps::evaluated_weights(*run.config);
  ComparedRun c = apps::compared_run(run);
  const Results* main = main_evaluation(run.newest, *run.config);
  for (const Results& r : run.newest) {
    MeasuredWith with = apps::measured_with(r, "pictures", own);
    with.emplace_back("views", r.views);
    // Columns show the main evaluation, others of the same pictures, and all with corruptions.
    const bool asks = !r.corrupted.empty() || (r.fingerprint == main->fingerprint && r.data == main->data);
    c.add({.name = "mIoU", .percent = true, .with = with}, known(r.scores.mean_iou), 100, asks);
    c.add({.name = "pixel acc", .percent = true, .with = with}, known(r.scores.pixel_accuracy), 100, asks);
    c.add({.name = "mean acc", .percent = true, .with = with}, known(r.scores.mean_accuracy), 100, asks);
    if (asks) c.measured(r, own);
    with.emplace_back("seed", std::to_string(r.seed));
    with.emplace_back("frost", r.frost.empty() ? "not recorded" : r.frost);
    for (const Results::Attacked& a : r.attacked) {
      MeasuredWith how = with;
      if (!a.settings.empty()) how.emplace_back(a.attack, a.settings);
      c.add({.name = fmt::format("mIoU {} {:g}/255", a.attack, a.budget), .percent = true, .with = how},
            known(a.scores.mean_iou), 100);
    }
    for (const int severity : severities_of(r.corrupted)) {
      std::vector<apps::Corrupted<Scores>> at = r.corrupted;
      std::erase_if(at, [&](const auto& each) { return each.severity != severity; });
      const std::string set = apps::corruption_set(at, true), all = apps::corruption_set(at);
      MeasuredWith how = with;
      if (set != all) how.emplace_back(fmt::format("corruptions at {}", severity), all);
      c.add({.name = "mIoU " + set, .percent = true, .with = how},
            known(mean_corrupted(at, severity)->mean_iou), 100);
    }
  }
  return c;
}

apps::ComparisonPage comparison_page(const std::vector<RunRecord>& runs) {
  return {.title = fmt::format("Comparison of {} segmenters", runs.size()),
          .curves = training_curves("validation"),
          .samples = [&runs](Report& report) {
            add_samples(report, drawn_runs(apps::folders_of(runs)), /*of_test=*/true);
          }};
}

}  // namespace pursuit::segment
