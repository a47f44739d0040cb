#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "apps/run/files.h"
#include "apps/segment/attack.h"
#include "apps/segment/commands.h"
#include "apps/segment/results.h"
#include "data/segmentation.h"
#include "engine/base/random.h"
#include "engine/core/shapes_only.h"
#include "engine/ops.h"
#include "nn/segmenter.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::segment;
namespace fs = std::filesystem;

namespace {

const std::vector<double> mean = {0.4, 0.5, 0.6}, deviation = {0.2, 0.25, 0.3};

// The logits of a pixel's classes are its normalised channels.
Predictor channels(int64_t height, int64_t width, int64_t stride) {
  Predictor p;
  p.model = [](const Tensor& windows) { return windows; };
  p.mean = mean;
  p.std = deviation;
  p.views.window = {.height = height, .width = width, .stride = stride, .batch = 2};
  return p;
}

attacks::Settings settings(const std::string& name, double budget) {
  attacks::Settings s;
  s.name = name;
  s.budget = budget;
  s.pixel = true;
  s.mean = mean;
  s.std = deviation;
  return s;
}

Tensor view(int64_t height, int64_t width) {  // normalised, of pixels in [0, 1]
  Random random(4);
  std::vector<uint8_t> pixels(size_t(3 * height * width));
  for (uint8_t& p : pixels) p = uint8_t(random.below(256));
  return normalise_images(from_vector(pixels, {1, 3, height, width}), mean, deviation, DType::f32);
}

// [1, 3, 6, 8] in three stripes of classes. A pixel's class stands out by 2 to 60 of 255, so that a small
// budget reaches some pixels.
Tensor stripes() {
  Random random(4);
  std::vector<uint8_t> pixels;
  for (size_t c = 0; c < 3; ++c)
    for (size_t i = 0; i < 48; ++i)
      pixels.push_back(uint8_t(std::lround(255 * mean[c]) + (i % 8 / 3 == c ? 2 + random.below(59) : 0)));
  return normalise_images(from_vector(pixels, {1, 3, 6, 8}), mean, deviation, DType::f32);
}

std::vector<double> pixels_of(const Tensor& view) {
  std::vector<double> values = view.to_vector();
  const size_t plane = values.size() / 3;
  for (size_t i = 0; i < values.size(); ++i) values[i] = values[i] * deviation[i / plane] + mean[i / plane];
  return values;
}

}  // namespace

TEST_CASE("segment attack: fgsm lowers the label's logit and raises the others, of labelled pixels alone") {
  const double eps = 8.0 / 255;
  // One window, windows that overlap, and one that is larger than the picture.
  struct Windows {
    int64_t height, width, stride;
  };
  for (const Windows& windows : {Windows{5, 7, 0}, {3, 4, 2}, {9, 6, 0}}) {
    CAPTURE(windows.height);
    const Tensor x = view(5, 7);
    data::Image labels(7, 5, 1);
    for (size_t i = 0; i < 35; ++i) labels.pixels[i] = i % 4 == 3 ? data::kIgnoredLabel : uint8_t(i % 4);
    const auto before = pixels_of(x),
               after = pixels_of(attacked(channels(windows.height, windows.width, windows.stride), x, labels,
                                          settings("fgsm", 8), 0));
    for (size_t c = 0; c < 3; ++c)
      for (size_t i = 0; i < 35; ++i) {
        const uint8_t label = labels.pixels[i];
        const double way = label == data::kIgnoredLabel ? 0 : label == c ? -eps : eps;
        CHECK(after[35 * c + i] ==
              doctest::Approx(std::clamp(before[35 * c + i] + way, 0.0, 1.0)).epsilon(1e-5));
      }
  }
}

TEST_CASE("segment attack: its memory is estimated within 15 %") {
  nn::SegmenterConfig config;
  config.encoder.image = 32;
  config.encoder.patch = 8;
  config.encoder.width = 32;
  config.encoder.dim = 64;
  config.encoder.depth = 3;
  config.encoder.heads = 2;
  config.encoder.classes = 5;
  nn::Segmenter model(config);
  for (const nn::NamedTensor& p : model.parameters()) *p.tensor = p.tensor->detach();
  for (const int64_t stride : {0, 16}) {
    Predictor predictor = channels(32, 32, stride);
    predictor.model = [&](const Tensor& windows) { return model(windows); };
    const Tensor x = view(80, 112);
    const data::Image labels(112, 80, 1);
    for (const char* name : {"fgsm", "pgd", "mim"}) {
      CAPTURE(name);
      const int64_t before = memory_stats().allocated;
      reset_peak_memory();
      attacked(predictor, x, labels, settings(name, 4), 0);
      const double taken = double(memory_stats().allocated_peak - before);
      const ShapesOnly shapes;
      attack_on_shapes(predictor, x.shape());
      CHECK(double(shapes.peak()) < 1.15 * taken);
      CHECK(double(shapes.peak()) > 0.85 * taken);
    }
  }
}

TEST_CASE("segment attack: pgd stays in its ball, takes the labels at the view's size, and lowers the mIoU") {
  const Tensor x = stripes();
  const std::vector<double> values = x.to_vector();
  data::Image labels(16, 12, 1);  // the view is half as large
  for (int y = 0; y < 12; ++y)
    for (int at = 0; at < 16; ++at) *labels.at(at, y) = uint8_t(at / 2 / 3);
  const Predictor predictor = channels(4, 4, 0);
  const auto mean_iou = [&](const Tensor& changed) {
    nn::ConfusionMatrix matrix(3, data::kIgnoredLabel);
    matrix.add(
        upsample_argmax(nn::sliding_window_logits(predictor.model, changed, predictor.views.window), 12, 16)
            .reshape({12, 16}),
        numbers(labels));
    return matrix.mean_iou();
  };
  double last = mean_iou(x);
  CHECK(last > 0.8);  // bilinear upsampling moves some borders
  for (const double budget : {4.0, 16.0, 255.0}) {
    const Tensor changed = attacked(predictor, x, labels, settings("pgd", budget), 2);
    const auto before = pixels_of(x), after = pixels_of(changed);
    for (size_t i = 0; i < before.size(); ++i) {
      CHECK(std::abs(after[i] - before[i]) <= budget / 255 + 1e-6);
      CHECK(after[i] >= -1e-6);
      CHECK(after[i] <= 1 + 1e-6);
    }
    CHECK(mean_iou(changed) < last);
    last = mean_iou(changed);
  }
  CHECK(last == 0);
  std::fill(labels.pixels.begin(), labels.pixels.end(), data::kIgnoredLabel);
  CHECK(attacked(predictor, x, labels, settings("pgd", 4), 0).to_vector() == values);
}

TEST_CASE("segment eval: under attacks, and of a corrupted set") {
  const TemporaryFolder f;
  // Halves of two colours, as the layout `folder`.
  const auto write = [&](const fs::path& folder, int count, uint8_t bright) {
    for (const char* kind : {"images", "labels"}) fs::create_directories(folder / kind);
    apps::write_file_atomically((folder / "classes.txt").string(), "dark\nbright\n");
    for (int i = 0; i < count; ++i) {
      data::Image image(32, 32, 3), labels(32, 32, 1);
      for (int y = 0; y < 32; ++y)
        for (int x = 0; x < 32; ++x) {
          *labels.at(x, y) = (x + i) % 32 < 16;
          for (int c = 0; c < 3; ++c) image.at(x, y)[c] = (x + i) % 32 < 16 ? bright : 90;
        }
      const std::string name = std::to_string(10 + i) + ".png";
      data::write_png((folder / "images" / name).string(), image);
      data::write_png((folder / "labels" / name).string(), labels);
    }
  };
  write(f.path / "data", 20, 160);
  Config c;
  c.data = f.file("data");
  c.height = c.width = 32;
  c.patch = 8;
  c.dim = 16;
  c.depth = 1;
  c.heads = 2;
  c.batch_size = 4;
  c.epochs = 12;
  c.lr = 0.01;
  c.eval_every = 0;
  c.threads = 1;
  c.workers = 0;
  c.device = "cpu";
  apps::RunOptions run;
  run.out = f.file("run");
  run.quiet = true;
  REQUIRE(train(c, run) == 0);

  EvalOptions e;
  e.checkpoint = f.file("run");
  e.attacks = {"fgsm", "pgd"};
  e.budgets = {0.5, 60};
  e.quiet = e.json = true;
  e.load.device = "cpu";
  REQUIRE(eval(e) == 0);
  const Results r = apps::read_evaluations<Results>(f.file("run")).back();
  REQUIRE(r.attacked.size() == 4);
  CHECK(r.scores.mean_iou > 0.5);
  for (const Results::Attacked& a : r.attacked) {
    CHECK(a.scores.mean_iou >= 0);
    CHECK(a.scores.mean_iou <= r.scores.mean_iou);
    if (a.budget == 60) CHECK(a.scores.mean_iou < r.scores.mean_iou / 2);
  }
  const std::string page = apps::read_file(f.file("run/report.html"));
  CHECK(page.find("mIoU under attack") != std::string::npos);
  CHECK(page.find("--attack fgsm,pgd --budgets 0.5,60") != std::string::npos);
  REQUIRE(eval(e) == 0);
  CHECK(apps::read_evaluations<Results>(f.file("run")).back().attacked.size() == 4);

  // Options of attacks, as classify has them, and on fewer pictures, whose clean scores are measured too.
  e.attacks = {"pgd", "mim"};
  e.attack_options = {{"pgd", {{"steps", int64_t(12)}}}};
  e.budgets = {60};
  e.attack_limit = 1;
  REQUIRE(eval(e) == 0);
  const Results few = apps::read_evaluations<Results>(f.file("run")).back();
  CHECK(few.count == 1);
  CHECK(few.scores.mean_iou > 0.5);
  REQUIRE(few.attacked.size() == 2);
  for (const Results::Attacked& a : few.attacked) {
    CHECK(a.arguments == (a.attack == "pgd" ? "--pgd-steps 12" : ""));
    CHECK(a.settings.starts_with(a.attack == "pgd" ? "12 steps" : "10 steps"));
    CHECK(a.scores.mean_iou < few.scores.mean_iou / 2);
  }
  CHECK(apps::read_file(f.file("run/report.html")).find("--attack pgd --budgets 60 --pgd-steps 12") !=
        std::string::npos);
  e.attack_limit = 0;
  e.attack_options.clear();

  const auto refused = [&](const char* text) {
    CHECK_MESSAGE(message_of([&] { eval(e); }).find(text) != std::string::npos, text);
  };
  e.views.scales = {1, 2};
  refused("--attack changes one view");
  e.views.scales = {};
  e.load.dtype = DType::bf16;
  refused("--attack needs --dtype f32");
  e.load.dtype = {};
  e.attacks = {"spsa"};
  refused("fgsm");
  e.attacks = {};

  write(f.path / "data-c/fog/1", 20, 150);
  write(f.path / "data-c/fog/4", 20, 95);
  e.data = f.file("data-c");
  e.severities = {1, 2, 3, 4, 5};
  REQUIRE(eval(e) == 0);
  const Results corrupted = apps::read_evaluations<Results>(f.file("run")).back();
  REQUIRE(corrupted.corrupted.size() == 2);
  CHECK(corrupted.scores.mean_iou == -1);
  CHECK(corrupted.corrupted[0].severity == 1);
  CHECK(corrupted.corrupted[0].scores.mean_iou > corrupted.corrupted[1].scores.mean_iou);
  // One severity's folder as a set of its own has the same scores.
  e.data = f.file("data-c/fog/4");
  refused("--severities has no effect without --corruptions");
  e.severities = {};
  REQUIRE(eval(e) == 0);
  CHECK(apps::read_evaluations<Results>(f.file("run")).back().scores.mean_iou ==
        corrupted.corrupted[1].scores.mean_iou);
  e.data = f.file("data-c");
  e.severities = {1, 2, 3, 4, 5};
  e.attacks = {"pgd"};
  refused("--attack needs clean pictures");
}
