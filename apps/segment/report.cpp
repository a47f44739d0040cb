#include "apps/common/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "apps/common/metrics.h"
#include "apps/common/run_lock.h"
#include "apps/common/text.h"
#include "apps/segment/commands.h"
#include "apps/segment/mask_picture.h"
#include "apps/segment/pipeline.h"
#include "apps/segment/run.h"
#include "apps/segment/run_record.h"
#include "apps/training/report_parts.h"
#include "data/corruptions.h"
#include "data/resize.h"

namespace pursuit::segment {

namespace {

using apps::Report;

std::string title(const RunRecord& r) {
  return r.config ? "Segmenter with " + describe_attention(*r.config) : "Semantic segmentation";
}

std::string subtitle(const RunRecord& r) {
  if (!r.config) return r.name;
  const Config& c = *r.config;
  return fmt::format("{}: {}, windows of {} x {}, patch {}, {} blocks of width {}, {} decoder, seed {}",
                     r.name, describe_data(c, "train"), c.width, c.height, c.patch, c.depth, c.dim,
                     choice_name(c.decoder), c.seed);
}

void add_highlights(Report& report, const RunRecord& r, const Results* main) {
  std::vector<apps::Highlight> h;
  if (main) {
    h.push_back({"mIoU", percent(main->scores.mean_iou) + "%",
                 fmt::format("{}, {} pictures; {}", main->data, main->count, main->views)});
    h.push_back({"Pixel accuracy", percent(main->scores.pixel_accuracy) + "%"});
    h.push_back({"Mean accuracy", percent(main->scores.mean_accuracy) + "%", "of the classes"});
  }
  for (const Results& results : apps::of_last_step(r.results, r))
    if (!results.corrupted.empty()) {
      const int mildest = severities_of(results.corrupted)[0];
      std::vector<Results::Corrupted> at = results.corrupted;
      std::erase_if(at, [&](const auto& c) { return c.severity != mildest; });
      h.push_back({"mIoU under corruption", percent(mean_corrupted(at, mildest)->mean_iou) + "%",
                   fmt::format("mean of {}; {}, {} pictures, clean {}%", apps::corruption_set(at, true),
                               results.data, results.count, percent(results.scores.mean_iou))});
    }
  if (const auto parameters = r.config ? apps::parameter_count<nn::Segmenter>(*r.config) : std::nullopt)
    h.push_back({"Parameters", apps::format_count(double(*parameters))});
  apps::add_training_highlights(h, r);
  if (!h.empty()) report.highlights(h);
}

void add_training(Report& report, const RunRecord& r) {
  if (r.metrics.empty()) return;
  report.section("Training");
  const auto series = [&](const char* key) { return apps::metric_series(r.metrics, key); };
  if (const auto loss = series("loss"); !loss.empty())
    report.chart(apps::LineChart{
        "Loss", "step", "cross-entropy", {{.name = "training", .points = loss, .smooth = true}}});
  if (const auto iou = apps::in_percent(series("mean_iou")); !iou.empty())
    report.chart(apps::LineChart{
        fmt::format("Scores on the {} split", r.config ? r.config->validation : "validation"),
        "step",
        "%",
        {{.name = "mIoU", .points = iou},
         {.name = "pixel accuracy", .points = apps::in_percent(series("pixel_accuracy")), .dashed = true}}});
  add_rate_charts(report, r);
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

void add_corruptions(Report& report, const RunRecord& r) {
  bool begun = false;
  for (const Results& results : apps::of_last_step(r.results, r)) {
    if (results.corrupted.empty()) continue;
    if (!begun) {
      report.section("Corruptions");
      report.paragraph(
          "The pictures after the corruptions of Hendrycks & Dietterich (2019), at severities from 1 (mild) "
          "to 5.");
    }
    begun = true;
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
      for (const Results::Corrupted& c : results.corrupted)
        for (size_t g = 1; g < bars.groups.size(); ++g)
          if (c.severity == s && c.name == bars.groups[g]) values[g] = 100 * c.scores.mean_iou;
    }
    report.chart(bars);
    report.table(corruption_table(results), fmt::format("mIoU in %, on {} pictures; clean: {}.",
                                                        results.count, percent(results.scores.mean_iou)));
  }
}

// Everything that eval.json holds, also of other steps.
void add_evaluations(Report& report, const RunRecord& r) {
  if (r.results.size() < 2) return;
  report.section("All evaluations");
  apps::Table table{
      {"data", "views", "pictures", "weights", "step", "dtype", "seed", "mIoU", "corrupted", "by"}, {}};
  for (const Results& e : r.results)
    table.rows.push_back({e.data, e.views, std::to_string(e.count), e.weights, std::to_string(e.step),
                          e.dtype.empty() ? "-" : e.dtype, std::to_string(e.seed), percent(e.scores.mean_iou),
                          e.corrupted.empty() ? "-" : apps::corruption_set(e.corrupted), program(e)});
  report.table(table, "Everything in eval.json, the one written last at the end.");
}

// A picture, its label and what the model says, in rows; pictures from all over the split that the highlights
// are of.
void add_samples(Report& report, const RunRecord& r, const Results* main) {
  constexpr int64_t most = 6;
  constexpr int side = 240;
  report.section("What the model sees");
  try {
    const LoadedModel loaded = load_model(r.folder);
    const Predictor predictor = predictor_of(*loaded.model, loaded.config);
    const Config& c = loaded.config;
    const std::string split = main && main->data == describe_data(c, "test") ? "test" : c.validation;
    const auto pictures = open_data(c, split);
    const int64_t count = std::min(most, pictures->size());
    apps::PictureGrid grid{.title = "Pictures of the " + pictures->split() + " split",
                           .pictures = {},
                           .columns = 3,
                           .headings = {"picture", "label", "prediction"},
                           .caption = "Ignored pixels are black."};
    const auto add = [&](const data::Image& picture, const std::string& caption) {
      const double scale = std::min(1.0, double(side) / std::min(picture.width, picture.height));
      grid.pictures.push_back({data::resize(picture, std::max(1, int(picture.width * scale)),
                                            std::max(1, int(picture.height * scale)), data::Filter::box),
                               caption});
    };
    std::vector<bool> shown(c.classes.size());
    for (int64_t i = 0; i < count; ++i) {
      const data::SegmentationSample sample = pictures->get((2 * i + 1) * pictures->size() / (2 * count));
      const data::Image classes = predictor.classes_of(sample.image);
      nn::ConfusionMatrix matrix(int64_t(c.classes.size()), data::kIgnoredLabel);
      matrix.add(from_vector(classes.pixels, {int64_t(classes.pixels.size())}),
                 from_vector(sample.labels.pixels, {int64_t(sample.labels.pixels.size())}));
      add(sample.image, "");
      add(colour_mask(sample.labels, c.colours), "");
      add(colour_mask(classes, c.colours), percent(matrix.overall_accuracy()) + " % of the pixels right");
      for (const data::Image* map : {&sample.labels, &classes})
        for (const ClassShare& s : class_shares(*map, int64_t(c.classes.size()))) shown[s.index] = true;
    }
    report.pictures(grid);
    std::vector<std::pair<data::Rgb, std::string>> colours;
    for (size_t index = 0; index < shown.size(); ++index)
      if (shown[index]) colours.emplace_back(c.colours.at(index), c.classes[index]);
    report.swatches("Colours", colours);
  } catch (const std::exception& e) {
    report.paragraph(
        fmt::format("Left out, because the model or its data could not be opened: {}", e.what()));
  }
}

// The commands that made the run and its evaluations.
std::string commands(const RunRecord& r) {
  const std::string folder = apps::quoted(r.folder);
  std::string text = apps::train_command("segment", r.folder, *r.config) + "\n";
  for (const Results& results : apps::of_last_step(r.results, r)) {
    text += "segment eval --checkpoint " + folder;
    if (!results.options.empty()) text += " " + results.options;
    if (!results.corrupted.empty()) text += " " + apps::corruption_arguments(results.corrupted);
    text += "\n";
  }
  return text + "segment report " + folder + "\n";
}

}  // namespace

void write_report(const std::string& folder) {
  const apps::FolderLock lock(folder);
  const RunRecord record("segment", folder);
  const std::vector<Results> last = apps::of_last_step(record.results, record);
  const Results* main = record.config ? main_evaluation(last, *record.config) : nullptr;
  Report report(title(record), subtitle(record));
  add_highlights(report, record, main);
  add_training(report, record);
  add_classes(report, main);
  add_corruptions(report, record);
  add_evaluations(report, record);
  add_samples(report, record, main);
  if (record.config) {
    add_configuration(report, apps::options_to_json(*record.config),
                      {{"classes", std::to_string(record.config->classes.size())}});
    report.section("Reproduce");
    report.code(commands(record));
  }
  apps::finish_report(report, record);
}

}  // namespace pursuit::segment
