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
                     r.name, describe_data(c, "train"), c.width, c.height, c.patch, c.depth, c.dim, c.decoder,
                     c.seed);
}

void add_highlights(Report& report, const RunRecord& r) {
  std::vector<apps::Highlight> h;
  if (r.results) {
    const Results& results = *r.results;
    h.push_back({"mIoU", percent(results.scores.mean_iou) + "%",
                 fmt::format("{}, {} pictures", results.data, results.count)});
    h.push_back({"Pixel accuracy", percent(results.scores.pixel_accuracy) + "%"});
    h.push_back({"Mean accuracy", percent(results.scores.mean_accuracy) + "%", "of the classes"});
    for (const int s : severities_of(results.corrupted)) {
      const auto all = [&](const auto& c) { return c.severity == s; };
      const auto types = std::count_if(results.corrupted.begin(), results.corrupted.end(), all);
      h.push_back({"mIoU under corruption", percent(mean_corrupted(results.corrupted, s)->mean_iou) + "%",
                   fmt::format("severity {}, mean of {} types", s, types)});
      break;
    }
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
    report.chart(
        apps::LineChart{"Loss",
                        "step",
                        "cross-entropy",
                        {{.name = "training", .points = loss, .smoothing = loss.size() > 20 ? 0.9 : 0}}});
  if (const auto iou = apps::in_percent(series("mean_iou")); !iou.empty())
    report.chart(apps::LineChart{
        fmt::format("Scores on the {} split", r.config ? r.config->validation : "validation"),
        "step",
        "%",
        {{.name = "mIoU", .points = iou},
         {.name = "pixel accuracy", .points = apps::in_percent(series("pixel_accuracy")), .dashed = true}}});
  add_rate_charts(report, r);
}

void add_classes(Report& report, const RunRecord& r) {
  if (!r.results) return;
  const Results& results = *r.results;
  report.section("Classes");
  report.key_values({{"Data", fmt::format("{}, {} pictures", results.data, results.count)},
                     {"Views", results.views},
                     {"Weights", fmt::format("{}step {}", results.ema ? "averaged, " : "", results.step)}});
  apps::BarChart bars{"IoU of each class", "%", {}, {{"IoU", {}}}};
  for (size_t c = 0; c < results.classes.size(); ++c) {
    bars.groups.push_back(results.classes[c]);
    bars.series[0].values.push_back(results.iou[c] < 0 ? NAN : 100 * results.iou[c]);
  }
  report.chart(bars);
  report.table(class_table(results), "In %; classes that appear nowhere have no score.");
}

void add_corruptions(Report& report, const RunRecord& r) {
  if (!r.results || r.results->corrupted.empty()) return;
  report.section("Corruptions");
  report.paragraph(
      "The test pictures after the corruptions of Hendrycks & Dietterich (2019), at severities from 1 (mild) "
      "to 5.");
  apps::BarChart bars{"mIoU under each corruption", "%", {}, {}};
  for (const int s : severities_of(r.results->corrupted)) {
    bars.groups = data::corruption_names();
    bars.series.push_back({fmt::format("severity {}", s), std::vector<double>(bars.groups.size(), NAN)});
    for (const Results::Corrupted& c : r.results->corrupted)
      for (size_t g = 0; g < bars.groups.size(); ++g)
        if (c.severity == s && c.name == bars.groups[g])
          bars.series.back().values[g] = 100 * c.scores.mean_iou;
  }
  report.chart(bars);
  report.table(corruption_table(*r.results), "mIoU in %.");
}

// A picture, its label and what the model says, in rows; pictures from all over the test split.
void add_samples(Report& report, const RunRecord& r) {
  constexpr int64_t most = 6;
  constexpr int side = 240;
  report.section("What the model sees");
  try {
    const LoadedModel loaded = load_model(r.folder);
    const Predictor predictor = predictor_of(*loaded.model, loaded.config);
    const Config& c = loaded.config;
    const auto test = open_data(c, "test");
    const int64_t count = std::min(most, test->size());
    apps::PictureGrid grid{.title = "Pictures of the test split",
                           .pictures = {},
                           .columns = 3,
                           .caption = "Picture, label, prediction. Ignored pixels are black."};
    const auto add = [&](const data::Image& picture, const std::string& caption) {
      const double scale = std::min(1.0, double(side) / std::min(picture.width, picture.height));
      grid.pictures.push_back({data::resize(picture, std::max(1, int(picture.width * scale)),
                                            std::max(1, int(picture.height * scale)), data::Filter::box),
                               caption});
    };
    std::vector<bool> shown(c.classes.size());
    for (int64_t i = 0; i < count; ++i) {
      const data::SegmentationSample sample = test->get((2 * i + 1) * test->size() / (2 * count));
      const data::Image classes = predictor.classes_of(sample.image);
      nn::ConfusionMatrix matrix(int64_t(c.classes.size()), data::kIgnoredLabel);
      matrix.add(from_vector(classes.pixels, {int64_t(classes.pixels.size())}),
                 from_vector(sample.labels.pixels, {int64_t(sample.labels.pixels.size())}));
      add(sample.image, "");
      add(colour_mask(sample.labels, c.colours), "");
      add(colour_mask(classes, c.colours), percent(matrix.pixel_accuracy()) + " % of the pixels right");
      for (const data::Image* map : {&sample.labels, &classes})
        for (const ClassShare& s : class_shares(*map, int64_t(c.classes.size()))) shown[s.index] = true;
    }
    report.pictures(grid);
    data::Image key(int(std::count(shown.begin(), shown.end(), true)), 1, 1);
    for (size_t index = 0, at = 0; index < shown.size(); ++index)
      if (shown[index]) key.pixels[at++] = uint8_t(index);
    report.pictures(
        {.title = "Colours", .pictures = {{legend(key, c.classes, c.colours, false)}}, .columns = 1});
  } catch (const std::exception& e) {
    report.paragraph(
        fmt::format("Left out, because the model or its test data could not be opened: {}", e.what()));
  }
}

// The commands that made the run and the evaluation written last.
std::string commands(const RunRecord& r) {
  const std::string folder = apps::quoted(r.folder);
  std::string text = apps::train_command("segment", r.folder, apps::options_to_json(Config{}),
                                         apps::options_to_json(*r.config)) +
                     "\n";
  if (r.results) {
    const Results& results = *r.results;
    text += "segment eval --checkpoint " + folder + (results.ema ? " --ema" : "");
    if (!results.options.empty()) text += " " + results.options;
    if (results.seed) text += fmt::format(" --seed {}", results.seed);
    if (!results.corrupted.empty())
      text += " " + apps::corruption_arguments(results.corrupted, results.count);
    text += "\n";
  }
  return text + "segment report " + folder + "\n";
}

}  // namespace

void write_report(const std::string& folder) {
  const apps::FolderLock lock(folder);
  const RunRecord record(folder);
  Report report(title(record), subtitle(record));
  add_highlights(report, record);
  add_training(report, record);
  add_classes(report, record);
  add_corruptions(report, record);
  add_samples(report, record);
  if (record.config) {
    add_configuration(report, apps::options_to_json(*record.config),
                      {{"classes", std::to_string(record.config->classes.size())}});
    report.section("Reproduce");
    report.code(commands(record));
  }
  apps::finish_report(report, record);
}

}  // namespace pursuit::segment
