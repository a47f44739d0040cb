#include <doctest/doctest.h>

#include <functional>

#include "apps/run/files.h"
#include "apps/segment/predictor.h"
#include "apps/segment/results.h"
#include "engine/base/error.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::segment;

namespace {

// Pictures of one row in which the channel of the class to predict is the brightest.
class Rows : public data::SegmentationDataset {
 public:
  struct Row {
    std::vector<uint8_t> predicted, labels;
    bool damaged = false;
  };
  explicit Rows(std::vector<Row> rows) : rows_(std::move(rows)) {}
  int64_t size() const override { return int64_t(rows_.size()); }
  data::SegmentationSample get(int64_t i) const override {
    const Row& row = rows_.at(size_t(i));
    const int width = int(row.labels.size());
    data::SegmentationSample s{data::Image(width, 1, 3), data::Image(width, 1, 1), row.damaged ? -1 : i};
    for (int x = 0; x < width; ++x) {
      s.image.at(x, 0)[row.predicted[size_t(x)]] = 255;
      *s.labels.at(x, 0) = row.labels[size_t(x)];
    }
    return s;
  }
  std::string name(int64_t i) const override { return "row " + std::to_string(i); }
  std::string label_file(int64_t) const override { return ""; }
  data::Split split() const override { return data::Split::test; }
  const std::vector<std::string>& classes() const override { return classes_; }
  const std::vector<data::Rgb>& colours() const override { return colours_; }

 private:
  std::vector<Row> rows_;
  std::vector<std::string> classes_ = {"a", "b", "c"};
  std::vector<data::Rgb> colours_ = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
};

Predictor channel_model() {
  Predictor p;
  p.model = [](const Tensor& w) { return w; };
  p.mean = {0, 0, 0};
  p.std = {1, 1, 1};
  p.views.window = {.height = 1, .width = 2};
  return p;
}

Results some_results(int64_t count, double iou) {
  Results r;
  r.data = "camvid test";
  r.views = "own size";
  r.step = 10;
  r.count = count;
  r.scores = {0.9, 0.8, iou};
  r.classes = {"sky", "car"};
  r.iou = {0.5, -1};
  r.accuracy = {0.75, -1};
  r.pixels = {100, 0};
  return r;
}

}  // namespace

TEST_CASE("results: of an evaluation that was stopped before it had scores") {
  Results r;
  CHECK(to_json(r).at("classes").empty());
  CHECK(class_table(r).rows.empty());
  r.set_scores(nn::ConfusionMatrix(2), 0, {"sky", "car"});
  CHECK(to_json(r).at("classes").size() == 2);
}

TEST_CASE("evaluation: counts what is labelled, leaves out what is ignored and stand-ins") {
  constexpr uint8_t skip = data::kIgnoredLabel;
  const Rows rows({{{0, 0, 1}, {0, 1, 1}}, {{2, 1, 0, 0}, {skip, skip, 0, skip}}, {{2, 2}, {0, 0}, true}});
  int64_t ticks = 0, seen = 0;
  const Totals e =
      evaluate(channel_model(), rows,
               {.seen =
                    [&](int64_t i, const data::SegmentationSample& s, const data::Image& classes) {
                      CHECK(i == seen);
                      ++seen;
                      CHECK(classes.width == s.labels.width);
                    },
                .tick = [&](int64_t done) { CHECK(done == ++ticks); }});
  CHECK(e.complete);
  CHECK(e.count == 2);
  CHECK(ticks == 3);
  CHECK(seen == 2);
  // By hand: labels a a b b, predicted a a a b. Class c has no pixel.
  CHECK(e.confusion.total() == 4);
  const Scores s = scores_of(e.confusion);
  CHECK(s.pixel_accuracy == doctest::Approx(3.0 / 4));
  CHECK(s.mean_accuracy == doctest::Approx((1 + 1.0 / 2) / 2));
  CHECK(s.mean_iou == doctest::Approx((2.0 / 3 + 1.0 / 2) / 2));
  CHECK(e.confusion.iou()[2] == -1);
}

TEST_CASE("evaluation: a change is made to the pictures, by their number") {
  const Rows rows({{{0}, {2}}, {{1}, {2}}});
  const Totals e = evaluate(channel_model(), rows, {.change = [](const data::Image& image, int64_t i) {
                              data::Image out(image.width, image.height, 3);
                              for (int x = 0; x < image.width; ++x) out.at(x, 0)[i == 0 ? 2 : 0] = 9;
                              return out;
                            }});
  CHECK(e.confusion.at(2, 2) == 1);
  CHECK(e.confusion.at(2, 0) == 1);
}

TEST_CASE("evaluation: an error of a picture made ready ahead arrives") {
  const Rows rows({{{0}, {0}}, {{0}, {0}}});
  CHECK_THROWS_AS(evaluate(channel_model(), rows,
                           {.change =
                                [](const data::Image& image, int64_t i) {
                                  if (i == 1) fail("test", "damaged");
                                  return image;
                                }}),
                  Error);
}

TEST_CASE("segment results: what was measured alike adds up, everything else is kept beside it") {
  const TemporaryFolder at;
  const std::string folder = at.path.string();
  CHECK(apps::read_evaluations<Results>(folder).empty());
  Results first = some_results(50, 0.4);
  first.corrupted = {{"fog", 1, {0.5, 0.4, 0.3}}, {"snow", 1, {0.7, 0.6, 0.1}}};
  apps::add_evaluation(folder, first);
  Results second = some_results(50, 0.5);
  second.corrupted = {{"fog", 1, {0.6, 0.5, 0.2}}, {"fog", 3, {0.1, 0.1, 0.1}}};
  apps::add_evaluation(folder, second);
  REQUIRE(apps::read_evaluations<Results>(folder).size() == 1);
  Results r = apps::read_evaluations<Results>(folder)[0];
  CHECK(r.scores.mean_iou == 0.5);
  CHECK(r.iou == first.iou);
  CHECK(r.pixels == first.pixels);
  REQUIRE(r.corrupted.size() == 3);
  CHECK(severities_of(r.corrupted) == std::set<int>{1, 3});
  const Scores mean = mean_corrupted(r.corrupted, 1).value();
  CHECK(mean.pixel_accuracy == doctest::Approx(0.65));
  CHECK(mean.mean_accuracy == doctest::Approx(0.55));
  CHECK(mean.mean_iou == doctest::Approx(0.15));
  CHECK(!mean_corrupted(r.corrupted, 5));

  size_t count = 1;
  for (const std::function<void(Results&)>& change : std::initializer_list<std::function<void(Results&)>>{
           [](Results& o) { o.count = 5; }, [](Results& o) { o.views = "own size, flip"; },
           [](Results& o) { o.step = 20; }, [](Results& o) { o.weights = "ema"; },
           [](Results& o) { o.seed = 1; }, [](Results& o) { o.frost = "overlays"; },
           [](Results& o) { o.dtype = "bf16"; }, [](Results& o) { o.fingerprint = "other pictures"; }}) {
    Results other = some_results(50, 0.9);
    change(other);
    other.corrupted = {{"fog", 1, {0, 0, 0}}};
    apps::add_evaluation(folder, other);
    REQUIRE(apps::read_evaluations<Results>(folder).size() == ++count);
    CHECK(apps::read_evaluations<Results>(folder)[0].corrupted.size() == 3);
    CHECK(apps::read_evaluations<Results>(folder)[0].scores.mean_iou == 0.5);
    CHECK(alike(apps::read_evaluations<Results>(folder).back(), other));
  }

  // A file of before: corruptions on fewer pictures than the rest are taken apart.
  apps::write_file_atomically(folder + "/eval.json", R"({"evaluations": [{"data": "d", "views": "own size",
      "ema": false, "step": 1, "seed": 0, "count": 9, "scores": {"pixel_accuracy": 0.5, "mean_accuracy": 0.5,
      "mean_iou": 0.5}, "classes": [], "corrupted": [{"name": "fog", "severity": 1, "count": 2,
      "scores": {"pixel_accuracy": 0.1, "mean_accuracy": 0.1, "mean_iou": 0.1}}]}]})");
  const std::vector<Results> old = apps::read_evaluations<Results>(folder);
  REQUIRE(old.size() == 2);
  CHECK(old[0].count == 2);
  CHECK(old[0].scores.mean_iou == -1);
  CHECK(old[1].corrupted.empty());

  apps::write_file_atomically(folder + "/eval.json", "{\"evaluations\": [{}]}");
  CHECK_THROWS_WITH_AS(apps::read_evaluations<Results>(folder), doctest::Contains("eval.json"), Error);
}

TEST_CASE("segment results: tables") {
  Results r = some_results(50, 0.4);
  const apps::Table classes = class_table(r);
  CHECK(classes.rows[0] == std::vector<std::string>{"sky", "50.00", "75.00", "100.00"});
  CHECK(classes.rows[1] == std::vector<std::string>{"car", "-", "-", "0.00"});
  r.corrupted = {{"snow", 1, {0.7, 0.6, 0.125}}, {"fog", 1, {0.5, 0.4, 0.375}}, {"fog", 2, {0, 0, 0}}};
  const apps::Table corruptions = corruption_table(r);
  REQUIRE(corruptions.rows.size() == 5);
  CHECK(corruptions.rows[0] == std::vector<std::string>{"snow", "12.50", "-"});
  CHECK(corruptions.rows[1] == std::vector<std::string>{"fog", "37.50", "0.00"});
  CHECK(corruptions.rows[2] == std::vector<std::string>{"mean of mIoU", "25.00", "0.00"});
}
