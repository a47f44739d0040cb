#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include "apps/classify/commands.h"
#include "apps/classify/outliers.h"
#include "apps/classify/pipeline.h"
#include "apps/classify/results.h"
#include "apps/run/files.h"
#include "data/corruptions.h"
#include "data/npy.h"
#include "tests/apps/random_run.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

// The published sets through `eval`, against accuracies and areas that are computed picture by picture.
using namespace pursuit;
using namespace pursuit::classify;
namespace fs = std::filesystem;

namespace {

constexpr int side = 8;

void make_run_of(const std::vector<std::string>& classes, const std::string& folder) {
  Config c;
  c.image_size = side;
  c.patch = 4;
  c.dim = 12;
  c.depth = 1;
  c.heads = 2;
  c.channels = 3;
  c.classes = classes;
  c.mean = {0.5, 0.4, 0.3};
  c.std = {0.2, 0.3, 0.25};
  c.crop = Crop::padded;
  c.threads = 1;
  c.device = "cpu";
  make_run(folder, c);
}

data::Image picture(uint64_t seed) {
  data::Image image(side, side, 3);
  Random random(seed);
  for (uint8_t& p : image.pixels) p = uint8_t(random.below(256));
  return image;
}

// Writes `each` random pictures of every class.
void write_classes(const fs::path& folder, const std::vector<std::string>& classes, int each, uint64_t seed) {
  for (const std::string& name : classes) {
    fs::create_directories(folder / name);
    for (int i = 0; i < each; ++i)
      data::write_png((folder / name / (std::to_string(i) + ".png")).string(), picture(++seed));
  }
}

EvalOptions asked(const TemporaryFolder& f, const std::string& data) {
  EvalOptions e;
  e.checkpoint = f.file("run");
  e.data = f.file(data);
  e.quiet = e.json = true;
  e.load.threads = 1;
  e.load.device = "cpu";
  return e;
}

Results newest(const TemporaryFolder& f) {
  const auto all = apps::read_evaluations<Results>(f.file("run"));
  REQUIRE(!all.empty());
  return all.back();
}

// Logits of every picture in a folder of class folders, with its class's number; by file order.
struct Seen {
  int64_t label;
  std::vector<float> logits;
};
std::vector<Seen> look(const TemporaryFolder& f, const fs::path& folder,
                       const std::vector<std::string>& classes) {
  const LoadedModel loaded = apps::load_model<Config>(f.file("run"));
  std::vector<Seen> all;
  for (size_t c = 0; c < classes.size(); ++c)
    if (fs::exists(folder / classes[c]))
      for (const auto& file : fs::directory_iterator(folder / classes[c]))
        all.push_back({int64_t(c), look_at(loaded, data::read_image(file.path().string())).logits});
  return all;
}

double accuracy(const std::vector<Seen>& seen, const std::vector<int64_t>& among) {
  int right = 0;
  for (const Seen& s : seen) {
    int64_t best = among[0];
    for (const int64_t c : among)
      if (s.logits[size_t(c)] > s.logits[size_t(best)]) best = c;
    right += best == s.label;
  }
  return double(right) / double(seen.size());
}

const std::vector<std::string> wnids = {"n00000001", "n00000002", "n00000003", "n00000004"};

}  // namespace

TEST_CASE("published sets: ImageNet-C's folders in one evaluation") {
  const TemporaryFolder f;
  make_run_of(wnids, f.file("run"));
  for (int severity = 1; severity <= 5; ++severity)
    write_classes(f.path / ("pictures" + std::to_string(severity)), wnids, 3, uint64_t(severity) * 100);
  // Every corruption's folders are links to the same five sets.
  for (const std::string& name : data::corruption_names()) {
    fs::create_directories(f.path / "imagenet-c" / name);
    for (int severity = 1; severity <= 5; ++severity)
      fs::create_directory_symlink(f.path / ("pictures" + std::to_string(severity)),
                                   f.path / "imagenet-c" / name / std::to_string(severity));
  }
  EvalOptions e = asked(f, "imagenet-c");
  e.corruptions = {"fog"};
  e.severities = {2};
  REQUIRE(eval(e) == 0);
  e.corruptions = {};
  e.severities = {1, 2, 3, 4, 5};
  REQUIRE(eval(e) == 0);
  const auto all = apps::read_evaluations<Results>(f.file("run"));
  REQUIRE(all.size() == 1);  // a part of the set is the same entry
  const Results& r = all[0];
  CHECK(r.data == "imagenet-c");
  CHECK(r.count == 12);
  CHECK(r.frost == "published");
  CHECK(std::isnan(r.scores.top1));
  CHECK(r.classes == wnids);
  REQUIRE(r.corrupted.size() == 75);
  double mean = 0;
  for (int severity = 1; severity <= 5; ++severity) {
    const double want =
        accuracy(look(f, f.path / ("pictures" + std::to_string(severity)), wnids), {0, 1, 2, 3});
    mean += want / 5;
    for (const auto& c : r.corrupted)
      if (c.severity == severity) CHECK(c.scores.top1 == doctest::Approx(want));
  }
  CHECK(mean > 0);
  CHECK(mean < 1);
  CHECK(mean_corruption_error(r).value().value == doctest::Approx(1 - mean));
  CHECK(mean_corrupted_top1(r).value() == doctest::Approx(mean));

  e.attacks = {"fgsm"};
  CHECK(message_of([&] { eval(e); }).find("--attack needs clean pictures") != std::string::npos);
  e.attacks = {};
  // A part that lacks a class, then a corruption that is not there at all.
  fs::remove(f.path / "imagenet-c/fog/3");
  fs::create_directories(f.path / "imagenet-c/fog/3");
  write_classes(f.path / "imagenet-c/fog/3", {wnids[0], wnids[1], wnids[2]}, 4, 1);
  e.corruptions = {"fog"};
  CHECK(message_of([&] { eval(e); }).find("fog/3 has other labels than gaussian_noise/1") !=
        std::string::npos);
  write_classes(f.path / "imagenet-c/fog/3", wnids, 4, 1);
  CHECK(message_of([&] { eval(e); }).find("fog/3 has 16 pictures, gaussian_noise/1 has 12") !=
        std::string::npos);
  fs::remove_all(f.path / "imagenet-c/fog");
  CHECK(message_of([&] { eval(e); }).find("lacks fog/1, fog/2, fog/3, fog/4, fog/5") != std::string::npos);
}

TEST_CASE("published sets: CIFAR-10-C's files in one evaluation") {
  const TemporaryFolder f;
  make_run_of(data::cifar10_classes(), f.file("run"));
  constexpr int64_t count = 4;
  std::vector<uint8_t> pixels;
  std::vector<int64_t> labels;
  for (uint64_t i = 0; i < 5 * count; ++i) {
    const data::Image image = picture(i);
    pixels.insert(pixels.end(), image.pixels.begin(), image.pixels.end());
    labels.push_back(int64_t(i % count) + 3);
  }
  fs::create_directories(f.path / "CIFAR-10-C");
  for (const char* name : {"snow", "jpeg_compression"})
    data::save_npy(f.file(std::string("CIFAR-10-C/") + name + ".npy"),
                   from_vector(pixels, {5 * count, side, side, 3}));
  data::save_npy(f.file("CIFAR-10-C/labels.npy"), from_vector(labels, {5 * count}));
  REQUIRE(eval(asked(f, "CIFAR-10-C")) == 0);
  const Results r = newest(f);
  CHECK(r.count == count);
  REQUIRE(r.corrupted.size() == 10);
  const LoadedModel loaded = apps::load_model<Config>(f.file("run"));
  for (const auto& c : r.corrupted) {
    int right = 0;
    for (int64_t i = 0; i < count; ++i)
      right += look_at(loaded, picture(uint64_t((c.severity - 1) * count + i))).ranking[0] == i + 3;
    CHECK(c.scores.top1 == doctest::Approx(right / double(count)));
  }
  CHECK(!mean_corruption_error(r));  // two of 15 corruptions
}

TEST_CASE("published sets: ImageNet-A and -R compare the logits of their own classes, -V2 has numbers") {
  const TemporaryFolder f;
  make_run_of({"0", "1", "2", "3"}, f.file("run"));  // as imported without data
  std::string list;
  for (const std::string& name : wnids) list += name + " name\n";
  apps::write_file_atomically(f.file("classes.txt"), list);
  write_classes(f.path / "imagenet-a", {wnids[1], wnids[3]}, 12, 50);
  EvalOptions e = asked(f, "imagenet-a");
  CHECK(message_of([&] { eval(e); }).find("none of the 4 classes") != std::string::npos);
  e.classes = f.file("classes.txt");
  REQUIRE(eval(e) == 0);
  Results r = newest(f);
  const auto seen = look(f, f.path / "imagenet-a", wnids);
  REQUIRE(seen.size() == 24);
  CHECK(r.count == 24);
  CHECK(r.left_out == 2);
  CHECK(r.classes == std::vector<std::string>{wnids[1], wnids[3]});
  CHECK(r.scores.top1 == doctest::Approx(accuracy(seen, {1, 3})));
  CHECK(accuracy(seen, {1, 3}) != doctest::Approx(accuracy(seen, {0, 1, 2, 3})));
  CHECK(r.options.find("--classes") != std::string::npos);

  apps::write_file_atomically(f.file("classes.txt"), wnids[0] + "\n");
  CHECK(message_of([&] { eval(e); }).find("names 1 classes, the model has 4") != std::string::npos);
  // Classes by the folders of a training set, pictures in folders of numbers.
  for (const std::string& name : wnids) fs::create_directories(f.path / "imagenet/train" / name);
  write_classes(f.path / "v2", {"0", "1", "2", "3"}, 5, 90);
  e = asked(f, "v2");
  e.classes = f.file("imagenet");
  REQUIRE(eval(e) == 0);
  CHECK(newest(f).scores.top1 ==
        doctest::Approx(accuracy(look(f, f.path / "v2", {"0", "1", "2", "3"}), {0, 1, 2, 3})));
  CHECK(newest(f).classes == wnids);
}

TEST_CASE("published sets: ImageNet-O's pictures against those of the same classes") {
  const TemporaryFolder f;
  make_run_of(wnids, f.file("run"));
  write_classes(f.path / "val", wnids, 6, 300);
  const std::vector<std::string> some = {wnids[0], wnids[2]};
  write_classes(f.path / "imagenet-o", some, 4, 400);
  EvalOptions e = asked(f, "val");
  e.outliers = f.file("imagenet-o");
  REQUIRE(eval(e) == 0);
  const Results r = newest(f);
  REQUIRE(r.outliers.size() == 1);
  const Results::Outliers& o = r.outliers[0];
  CHECK(o.data == "imagenet-o");
  CHECK(o.count == 8);
  CHECK(o.inliers == 12);
  CHECK(o.classes == 2);
  CHECK(r.count == 24);  // clean accuracy is of all

  // The area by its definition: for every threshold the precision, times what it adds to the recall.
  struct Scored {
    double score;
    bool outlier;
  };
  const auto area = [&](const std::function<double(double, double)>& score) {
    std::vector<Scored> all;
    for (const bool outlier : {false, true})
      for (const Seen& s : look(f, f.path / (outlier ? "imagenet-o" : "val"), wnids))
        if (s.label == 0 || s.label == 2) all.push_back({score(s.logits[0], s.logits[2]), outlier});
    REQUIRE(all.size() == 20);
    std::set<double> thresholds;
    for (const Scored& s : all) thresholds.insert(-s.score);
    double sum = 0, before = 0;
    for (const double t : thresholds) {
      double taken = 0, right = 0;
      for (const Scored& s : all)
        if (s.score >= -t) ++taken, right += s.outlier;
      sum += (right / 8 - before) * right / taken;
      before = right / 8;
    }
    return sum;
  };
  CHECK(o.aupr_probability ==
        doctest::Approx(area([](double a, double b) { return -1 / (1 + std::exp(-std::abs(a - b))); })));
  CHECK(o.aupr_energy ==
        doctest::Approx(area([](double a, double b) { return -std::log(std::exp(a) + std::exp(b)); })));
  CHECK(o.aupr_probability != doctest::Approx(o.aupr_energy));

  REQUIRE(eval(e) == 0);
  CHECK(newest(f).outliers.size() == 1);
  write_classes(f.path / "one", {wnids[1]}, 1, 1);
  e.data = f.file("one");
  CHECK(message_of([&] { eval(e); }).find("the data has no picture of the 2 classes of --outliers") !=
        std::string::npos);
}

TEST_CASE("calibration: of an evaluation, kept and read back") {
  const TemporaryFolder f;
  make_run_of(wnids, f.file("run"));
  write_classes(f.path / "val", wnids, 6, 500);
  REQUIRE(eval(asked(f, "val")) == 0);
  const Results r = newest(f);
  // The error picture by picture, from the probabilities.
  std::vector<double> gap(15);
  for (const Seen& s : look(f, f.path / "val", wnids)) {
    double sum = 0, best = -1;
    int64_t guess = 0;
    for (const float v : s.logits) sum += std::exp(double(v));
    for (size_t c = 0; c < 4; ++c)
      if (const double p = std::exp(double(s.logits[c])) / sum; p > best) best = p, guess = int64_t(c);
    gap[size_t(std::ceil(best * 15)) - 1] += double(guess == s.label) - best;
  }
  double want = 0;
  for (const double g : gap) want += std::abs(g) / 24;
  CHECK(r.scores.ece == doctest::Approx(want));
  CHECK(r.calibration.count() == 24);
  CHECK(r.calibration.error() == doctest::Approx(want));
  CHECK(apps::read_file(f.file("run/report.html")).find("Expected calibration error") != std::string::npos);
  CHECK(apps::read_file(f.file("run/report.html")).find("Reliability") != std::string::npos);
}
