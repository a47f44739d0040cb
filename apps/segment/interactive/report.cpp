#include "apps/page/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "apps/pictures/mask_picture.h"
#include "apps/segment/interactive/results.h"
#include "apps/study/loaded_model.h"
#include "data/resize.h"

namespace pursuit::segment::interactive {

using apps::Report;

namespace {

const std::vector<data::Rgb> mask_colours = {{40, 40, 48}, {255, 176, 32}};

std::string describe(const Results& r) {
  return fmt::format("{}; {}; robot user: {}", apps::describe(r, "objects"), r.answers, r.robot);
}

// The evaluation on the test split as the run answers, else the newest.
const Results* main_evaluation(const std::vector<Results>& results, const Config& c) {
  const std::string test = describe_data(c, data::Split::test), answers = describe_attention(c);
  return apps::main_evaluation(results, apps::evaluated_weights(c), [&](const Results& r) {
    return std::tuple(r.answers == answers, r.data == test, r.robot == describe(Robot{}));
  });
}

apps::LineSeries by_clicks(const Results& r, const std::string& name) {
  apps::LineSeries line{.name = name};
  for (size_t k = 0; k < r.mean_iou.size(); ++k) line.points.emplace_back(double(k + 1), 100 * r.mean_iou[k]);
  return line;
}

void add_clicks(Report& report, const std::vector<Results>& all) {
  if (all.empty()) return;
  report.section("Clicks");
  report.paragraph(
      "A robot user clicks into the middle of the largest error, up to 20 times. The mean number of clicks "
      "to an IoU "
      "(NoC) counts 20 for an object that never reaches it.");
  apps::LineChart chart{"Mean IoU after so many clicks", "clicks", "%", {}};
  for (const Results& r : all)
    chart.series.push_back(by_clicks(r, fmt::format("{}: {}, {}", r.data, r.answers, r.robot)));
  report.chart(chart);
  for (const Results& r : all) {
    report.heading(describe(r));
    report.table(clicks_table(r));
  }
}

// A mask (empty: none) over its picture, with the clicks as discs: green into the object, red beside it.
data::Image with_clicks(const data::Image& picture, const data::Image& mask,
                        const std::vector<data::Click>& clicks) {
  constexpr int least_side = 192;
  data::Image shown = data::to_rgb(picture);
  if (mask.width > 0) shown = apps::overlay(shown, apps::colour_mask(mask, mask_colours));
  const int factor = std::max(1, least_side / std::min(shown.width, shown.height));
  shown = data::resize(shown, factor * shown.width, factor * shown.height, data::Filter::box);
  const double radius = std::max(3.0, std::min(shown.width, shown.height) / 50.0);
  for (const data::Click& click : clicks) {
    const double x = factor * (click.x + 0.5), y = factor * (click.y + 0.5);
    for (int v = std::max(0, int(y - radius)); v <= std::min(shown.height - 1, int(y + radius)); ++v)
      for (int u = std::max(0, int(x - radius)); u <= std::min(shown.width - 1, int(x + radius)); ++u) {
        const double distance = std::hypot(u + 0.5 - x, v + 0.5 - y);
        if (distance > radius) continue;
        const data::Rgb colour = distance > radius - 1.5 ? data::Rgb{255, 255, 255}
                                 : click.positive        ? data::Rgb{32, 170, 64}
                                                         : data::Rgb{210, 40, 40};
        std::copy(colour.begin(), colour.end(), shown.at(u, v));
      }
  }
  return shown;
}

// Rows of picture, object and the masks after a few clicks; the objects are spread evenly over the split.
void add_samples(Report& report, const apps::RunFolder& run) {
  constexpr int64_t most = 6;
  const auto loaded = apps::load_model<Config>(run.folder);
  const Config& c = loaded.config;
  const auto objects = open_data(c, data::Split::test);
  const std::vector<int> shown = {1, 2, 5, 10};
  apps::PictureGrid grid{.title = fmt::format("Objects of the {} split", choice_name(objects->split())),
                         .pictures = {},
                         .columns = 2 + int(shown.size()),
                         .headings = {"picture", "object"},
                         .caption = "Clicks are green into the object, red beside it."};
  for (const int clicks : shown)
    grid.headings.push_back(fmt::format("{} click{}", clicks, clicks > 1 ? "s" : ""));
  const int64_t count = std::min(most, objects->size());
  for (int64_t i = 0; i < count; ++i) {
    const data::SegmentationSample sample = objects->get((2 * i + 1) * objects->size() / (2 * count));
    const ClickedPicture picture(*loaded.model, c, sample.image);
    grid.pictures.push_back({with_clicks(sample.image, data::Image(), {}), ""});
    grid.pictures.push_back({with_clicks(sample.image, sample.labels, {}), ""});
    std::vector<data::Click> clicks;
    data::Image mask(sample.image.width, sample.image.height, 1);
    for (int k = 1; k <= shown.back(); ++k) {
      if (const auto click = data::next_click(sample.labels, mask, clicks)) {
        clicks.push_back(*click);
        mask = picture.mask(clicks);
      }
      if (std::count(shown.begin(), shown.end(), k) > 0)
        grid.pictures.push_back(
            {with_clicks(sample.image, mask, clicks),
             fmt::format("IoU {:.1f} %", 100 * data::intersection_over_union(sample.labels, mask))});
    }
  }
  report.pictures(grid);
}

std::vector<apps::Curve> training_curves() {
  return {
      {.title = "Loss", .unit = "focal loss", .lines = {{.key = "loss", .name = "training", .smooth = true}}},
      {.title = "Mean IoU on validation objects",
       .unit = "%",
       .lines = {{.key = "mean_iou_5", .name = "5 clicks"},
                 {.key = "mean_iou_1", .name = "1 click", .dashed = true},
                 {.key = "mean_iou_20", .name = "20 clicks", .dashed = true}},
       .scale = 100}};
}

}  // namespace

apps::Cells cells_of(const Results& r) {
  apps::Cells cells{{"answers", r.answers}, {"robot user", r.robot}};
  for (const int k : {1, 5, 20})
    cells.emplace_back(fmt::format("mIoU@{}", k), fmt::format("{:.2f}", 100 * r.mean_iou[size_t(k - 1)]));
  for (const Results::Target& t : r.reached)
    cells.emplace_back(fmt::format("NoC@{:.0f}", 100 * t.iou), fmt::format("{:.2f}", t.clicks));
  return cells;
}

apps::RunPage page_of(RunRecord& r) {
  apps::RunPage page{.title = "Segmentation by clicks", .subtitle = r.name};
  if (r.config)
    page.subtitle =
        fmt::format("{}: {}, input {} x {}, {} blocks of width {}, {}, seed {}", r.name,
                    describe_data(*r.config, data::Split::train), r.config->width, r.config->height,
                    r.config->depth, r.config->dim, describe_attention(*r.config), r.config->seed);
  if (const Results* main = r.config ? main_evaluation(r.newest, *r.config) : nullptr) {
    for (const Results::Target& t : main->reached)
      page.highlights.push_back(
          {fmt::format("NoC@{:.0f}", 100 * t.iou), fmt::format("{:.2f}", t.clicks),
           fmt::format("{} of {} objects never reach it; {}", t.never, main->count, main->data)});
    page.highlights.push_back({"mIoU, 5 clicks", fmt::format("{:.1f}%", 100 * main->mean_iou[4])});
  }
  page.curves = training_curves();
  page.results = [&r](Report& report) { add_clicks(report, r.newest); };
  page.samples_title = "What clicks do";
  page.samples = [&r](Report& report) { add_samples(report, r); };
  for (const Results& e : r.newest)
    page.commands.push_back("segment interactive eval --checkpoint " + apps::quoted(r.folder) +
                            (e.options.empty() ? "" : " " + e.options));
  return page;
}

apps::ComparedRun compared(const RunRecord& run) {
  const std::string own = apps::evaluated_weights(*run.config);
  apps::ComparedRun c = apps::compared_run(run);
  for (const Results& r : run.newest) {
    apps::MeasuredWith with = apps::measured_with(r, "objects", own);
    with.emplace_back("robot user", r.robot);
    with.emplace_back("answers", changed_answers(r.answers, describe_attention(*run.config)));
    for (const int k : {1, 2, 3, 5, 10, 15})
      c.add({.name = fmt::format("mIoU@{}", k), .percent = true, .with = with}, r.mean_iou[size_t(k - 1)],
            100);
    for (const Results::Target& t : r.reached)
      c.add({.name = fmt::format("NoC@{:.0f}", 100 * t.iou), .best = apps::Best::lowest, .with = with},
            t.clicks);
    c.measured(r, own);
  }
  return c;
}

apps::ComparisonPage comparison_page(const std::vector<RunRecord>& runs) {
  apps::ComparisonPage page{.title = fmt::format("Comparison of {} segmenters by clicks", runs.size()),
                            .curves = {training_curves()[1], training_curves()[0]}};
  page.sections = [&runs](Report& report) {
    apps::LineChart chart{"Mean IoU after so many clicks", "clicks", "%", {}};
    for (const RunRecord& run : runs)
      if (const Results* main = main_evaluation(run.newest, *run.config))
        chart.series.push_back(by_clicks(*main, run.name));
    if (chart.series.empty()) return;
    report.section("Clicks");
    report.chart(chart);
  };
  return page;
}

}  // namespace pursuit::segment::interactive
