#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "apps/classify/results.h"
#include "apps/run/files.h"
#include "apps/run/metrics.h"
#include "apps/training/provenance.h"
#include "data/corruptions.h"
#include "engine/base/error.h"
#include "engine/ops.h"
#include "tests/message_of.h"

using namespace pursuit;
using namespace pursuit::classify;
namespace fs = std::filesystem;

namespace {

// A folder for the runs of one test, removed at its end.
struct Scratch {
  fs::path path;
  explicit Scratch(const std::string& name) : path(fs::temp_directory_path() / ("pursuit-compare-" + name)) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Scratch() { fs::remove_all(path); }
  std::string operator()(const std::string& name) const { return (path / name).string(); }
};

Config small_config(const std::string& attention, uint64_t seed) {
  Config c;
  c.attention = attention;
  c.seed = seed;
  c.image_size = 8;
  c.patch = 4;
  c.dim = 8;
  c.depth = 1;
  c.heads = 2;
  c.channels = 3;
  c.classes = {"cat", "dog"};
  c.mean = c.std = {0.5, 0.5, 0.5};
  return c;
}

void write_run(const std::string& folder, const Config& config) {
  fs::create_directories(folder);
  apps::write_file_atomically(folder + "/config.json", apps::fields_to_json(config).dump());
}

Results clean_results(double top1) {
  Results r;
  r.data = "synthetic test";
  r.fingerprint = "the pictures";
  r.dtype = "f32";
  r.made_by = {{"version", "1"}, {"commit", "a"}, {"threads", 2}};
  r.step = 100;
  r.count = 50;
  r.scores = {top1, 1, 0.5};
  r.classes = {"cat", "dog"};
  r.confusion = {20, 5, 5, 20};
  return r;
}

}  // namespace

TEST_CASE("compare: runs that differ in their seed alone are one row with mean and spread") {
  const Scratch at("groups");
  const double accuracies[] = {0.80, 0.83, 0.89};
  std::vector<std::string> folders;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Config config = small_config("rpc", seed);
    config.workers = int(seed);  // changes no result
    folders.push_back(at("rpc-" + std::to_string(seed)));
    write_run(folders.back(), config);
    Results r = clean_results(accuracies[seed]);
    r.attacked = {{"pgd", "normalised", 1, "20 steps", 0.5, 1, 0.1},
                  {"pgd", "normalised", 6, "20 steps", 0.1 * double(seed), 1, 0.2},
                  {"fgsm", "pixel", 4, "", 0.4, 1, 0.2}};
    apps::add_evaluation(folders.back(), r);
  }
  folders.insert(folders.begin() + 1, at("softmax"));
  write_run(folders[1], small_config("softmax", 0));

  const apps::Comparison c = apps::compare_runs<RunRecord>(folders);
  REQUIRE(c.groups.size() == 2);
  CHECK(c.groups[0].names == std::vector<std::string>{"rpc-0", "rpc-1", "rpc-2"});
  CHECK(c.groups[1].names == std::vector<std::string>{"softmax"});
  const apps::Measure& top1 = c.groups[0].measures.at("top-1 (50)");
  CHECK(top1.mean() == doctest::Approx(84));
  CHECK(top1.spread() == doctest::Approx(std::sqrt((16 + 1 + 25) / 2.0)));
  CHECK(c.groups[0].measures.at("pgd 6/255 (50)").mean() == doctest::Approx(10));
  CHECK(c.groups[0].measures.at("fgsm 4/255 (pixel) (50)").spread() == doctest::Approx(0));
  std::vector<std::string> columns;
  for (const apps::Column& column : c.columns) columns.push_back(column.heading);
  CHECK(columns == std::vector<std::string>{"top-1 (50)", "pgd 6/255 (50)", "fgsm 4/255 (pixel) (50)",
                                            "test loss (50)"});
  CHECK(describe_shared(c).find("in parentheses: pictures; data: synthetic test") == 0);
  CHECK(c.differences == std::vector<std::string>{"attention"});

  // By hand: patches 8 * 48 + 8, class token 8, positions 5 * 8, norms 3 * 16, qkv 24 * 8 + 24, proj 8 * 8 +
  // 8, MLP 32 * 8 + 32 + 8 * 32 + 8, head 2 * 8 + 2.
  CHECK(c.groups[1].first.parameters.value_or(0) == 392 + 8 + 40 + 48 + 216 + 72 + 552 + 18);

  const apps::Table table = to_table(c);
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0][0] == "rpc-0 and 2 more");
  CHECK(table.rows[0][1] == "3");
  CHECK(table.rows[0][4] == "84.00 ± 4.58");
  CHECK(table.rows[1][4] == "-");
  const auto json = to_json(c);
  CHECK(json["rows"][0]["measures"]["top-1 (50)"]["values"].size() == 3);
  CHECK(json["rows"][1]["options"]["attention"] == "softmax");
}

TEST_CASE("compare: ranks are as many accumulated batches") {
  const Scratch at("ranks");
  for (const auto& [ranks, accumulate] : {std::pair(2, 1), std::pair(1, 2), std::pair(2, 2)}) {
    Config config = small_config("softmax", uint64_t(ranks));
    config.ranks = ranks;
    config.accumulate = accumulate;
    write_run(at(fmt::format("{}x{}", ranks, accumulate)), config);
  }
  const apps::Comparison comparison = apps::compare_runs<RunRecord>({at("2x1"), at("1x2"), at("2x2")});
  REQUIRE(comparison.groups.size() == 2);
  CHECK(comparison.groups[0].names.size() == 2);
  CHECK(comparison.differences == std::vector<std::string>{"batches a step"});
}

TEST_CASE("compare: speed and time come from the metrics, also over a resumed run") {
  const Scratch at("metrics");
  write_run(at("a"), small_config("softmax", 0));
  {
    apps::MetricsWriter metrics(at("a") + "/metrics.jsonl");
    int64_t step = 0;
    for (const double rate : {10.0, 1000.0, 1100.0, 1050.0, 990.0})
      metrics.write(step += 10, {{"images_per_second", rate}});
    for (const double seconds : {40.0, 100.0, 20.0, 50.0})
      metrics.write(++step,
                    {{"train_loss", 1.5}, {"test_loss", NAN}, {"test_accuracy", 0.25}, {"seconds", seconds}});
  }
  const apps::Comparison c = apps::compare_runs<RunRecord>({at("a")});
  const auto& m = c.groups.at(0).measures;
  CHECK(m.at("images/s").mean() == 1000);
  CHECK(m.at("train time").mean() == 150);
  CHECK(m.at("top-1 in training").mean() == 25);
  CHECK(m.at("train loss").mean() == 1.5);
  CHECK(!m.contains("test loss in training"));
}

TEST_CASE("compare: numbers that were measured differently never share a column, and none of them wins") {
  const Scratch at("unlike");
  for (const char* name : {"a", "b", "c"})
    write_run(at(name), small_config(name[0] == 'a' ? "rpc" : name[0] == 'b' ? "softmax" : "linear", 0));
  const auto evaluate = [&](const char* name, double top1, const std::function<void(Results&)>& change) {
    Results r = clean_results(top1);
    change(r);
    apps::add_evaluation(at(name), r);
  };
  const auto headings = [](const apps::Comparison& c) {
    std::vector<std::string> out;
    for (const apps::Column& column : c.columns)
      if (column.place == 0) out.push_back(column.heading);
    return out;
  };
  const auto stars = [](const apps::Comparison& c) {
    int count = 0;
    const apps::Table table = to_table(c);
    for (const auto& row : best_cells(table))
      for (size_t i = 0; i < c.columns.size(); ++i) count += c.columns[i].place == 0 && row[4 + i];
    return count;
  };
  using Headings = std::vector<std::string>;

  evaluate("a", 0.5, [](Results& r) { r.corrupted = {{"fog", 1, {0.4, 1}}, {"snow", 1, {0.4, 1}}}; });
  SUBCASE("pictures") {
    evaluate("b", 0.6, [](Results& r) { r.count = 40; });
    const apps::Comparison c = apps::compare_runs<RunRecord>({at("a"), at("b")});
    CHECK(headings(c) == Headings{"top-1 (50)", "fog, snow at 1 (50)", "top-1 (40)"});
    CHECK(stars(c) == 0);
  }
  SUBCASE("other pictures, as many") {
    evaluate("b", 0.6, [](Results& r) { r.fingerprint = "another"; });
    CHECK(headings(apps::compare_runs<RunRecord>({at("a"), at("b")})) ==
          Headings{"top-1 (50, the pictures)", "fog, snow at 1 (50, the pictures)", "top-1 (50, another)"});
  }
  SUBCASE("corruptions, severities, seeds and frost") {
    evaluate("b", 0.6, [](Results& r) { r.corrupted = {{"fog", 1, {0.5, 1}}}; });
    evaluate("b", 0.6, [](Results& r) {
      r.seed = 1;
      r.corrupted = {{"fog", 1, {0.5, 1}}, {"snow", 1, {0.5, 1}}};
    });
    evaluate("c", 0.7, [](Results& r) { r.corrupted = {{"fog", 2, {0.6, 1}}, {"snow", 2, {0.6, 1}}}; });
    evaluate("c", 0.7, [](Results& r) {
      r.frost = "overlays";
      r.corrupted = {{"fog", 1, {0.6, 1}}, {"snow", 1, {0.6, 1}}};
    });
    const apps::Comparison c = apps::compare_runs<RunRecord>({at("a"), at("b"), at("c")});
    CHECK(headings(c) == Headings{"top-1 (50)", "fog, snow at 1 (50, 0, drawn)", "fog at 1 (50, 0, drawn)",
                                  "fog, snow at 1 (50, 1, drawn)", "fog, snow at 2 (50, 0, drawn)",
                                  "fog, snow at 1 (50, 0, overlays)"});
    CHECK(stars(c) == 1);  // all three have the clean score of the same pictures
  }
  SUBCASE("attacks") {
    evaluate("b", 0.6, [](Results& r) {
      r.attacked = {{"pgd", "normalised", 2, "20 steps", 0.5, 1, 1},
                    {"pgd", "normalised", 4, "20 steps", 0.4, 1, 1}};
    });
    evaluate("c", 0.7, [](Results& r) {
      r.attacked = {{"pgd", "normalised", 2, "20 steps", 0.6, 1, 1},
                    {"spsa", "normalised", 0.1, "40 steps", 0.1, 1, 1}};
    });
    evaluate("a", 0.5, [](Results& r) { r.attacked = {{"spsa", "normalised", 0.1, "9 steps", 0.2, 1, 1}}; });
    const apps::Comparison c = apps::compare_runs<RunRecord>({at("b"), at("c"), at("a")});
    CHECK(headings(c) == Headings{"top-1 (50)", "pgd 4/255 (50)", "pgd 2/255 (50)", "spsa 0.1 (50, 40 steps)",
                                  "fog, snow at 1 (50)", "spsa 0.1 (50, 9 steps)"});
    CHECK(c.groups[0].measures.at("pgd 2/255 (50)").mean() == 50);  // shown because it is c's largest
    CHECK(stars(c) == 2);
  }
  SUBCASE("a quick look at few pictures does not stand for a run") {
    evaluate("a", 0.9, [](Results& r) { r.count = 5; });
    evaluate("b", 0.6, [](Results& r) { r.count = 50; });
    const apps::Comparison c = apps::compare_runs<RunRecord>({at("a"), at("b")});
    CHECK(headings(c) == Headings{"top-1 (50)", "fog, snow at 1 (50)"});
    CHECK(c.groups[0].measures.at("top-1 (50)").mean() == 50);
  }
}

TEST_CASE("compare: a run of another app is refused") {
  const Scratch at("app");
  write_run(at("mine"), small_config("rpc", 0));
  fs::create_directories(at("other"));
  apps::write_config(at("other"), apps::fields_to_json(small_config("rpc", 0)), "segment", "cpu");
  const std::string said = message_of([&] { apps::compare_runs<RunRecord>({at("mine"), at("other")}); });
  CHECK(said.find("other is a run of `segment`, need one of `classify`") != std::string::npos);
}

TEST_CASE("compare: a folder that is no run is named") {
  const Scratch at("wrong");
  fs::create_directories(at("empty"));
  const std::string empty = message_of([&] { apps::compare_runs<RunRecord>({at("empty")}); });
  CHECK(empty.find("empty") != std::string::npos);
  CHECK(empty.find("config.json") != std::string::npos);
  CHECK(message_of([&] { apps::compare_runs<RunRecord>({at("nowhere")}); }).find("nowhere") !=
        std::string::npos);
  write_run(at("damaged"), small_config("rpc", 0));
  apps::write_file_atomically(at("damaged") + "/config.json", "{\"attention\": ");
  CHECK(message_of([&] { apps::compare_runs<RunRecord>({at("damaged")}); }).find("damaged") !=
        std::string::npos);
}

TEST_CASE("results: what was measured alike adds up, everything else is kept beside it") {
  const Scratch at("results");
  CHECK(apps::read_evaluations<Results>(at(".")).empty());
  Results first = clean_results(0.9);
  first.corrupted = {{"fog", 1, {0.7, 1}}, {"fog", 2, {0.6, 1}}};
  apps::add_evaluation(at("."), first);
  Results second = clean_results(0.91);
  second.corrupted = {{"fog", 2, {0.65, 1}}, {"snow", 1, {0.5, 1}}};
  second.attacked = {{"fgsm", "pixel", 4, "", 0.3, 1, 0.5}};
  apps::add_evaluation(at("."), second);

  std::vector<Results> all = apps::read_evaluations<Results>(at("."));
  REQUIRE(all.size() == 1);
  CHECK(all[0].scores.top1 == 0.91);
  CHECK(all[0].confusion == first.confusion);
  REQUIRE(all[0].corrupted.size() == 3);
  CHECK(all[0].corrupted[0].scores.top1 == 0.7);
  CHECK(all[0].corrupted[1].scores.top1 == 0.65);
  CHECK(all[0].corrupted[2].name == "snow");
  REQUIRE(all[0].attacked.size() == 1);
  CHECK(all[0].attacked[0].l2 == 0.5);

  // Another attack of the same name is another result.
  Results other = clean_results(0.91);
  other.attacked = {{"fgsm", "normalised", 4, "", 0.2, 1, 0.5},
                    {"fgsm", "pixel", 4, "in two steps", 0.1, 1, 0.5}};
  apps::add_evaluation(at("."), other);
  CHECK(apps::read_evaluations<Results>(at(".")).at(0).attacked.size() == 3);

  // Results under different conditions are kept as separate entries.
  const std::function<void(Results&)> changes[] = {[](Results& r) { r.count = 5; },
                                                   [](Results& r) { r.fingerprint = "other pictures"; },
                                                   [](Results& r) { r.weights = "ema"; },
                                                   [](Results& r) { r.step = 200; },
                                                   [](Results& r) { r.dtype = "bf16"; },
                                                   [](Results& r) { r.seed = 1; },
                                                   [](Results& r) { r.frost = "overlays"; },
                                                   [](Results& r) { r.data = "other test"; },
                                                   [](Results& r) { r.made_by["commit"] = "b"; }};
  size_t count = 1;
  for (const auto& change : changes) {
    Results r = clean_results(0.2);
    change(r);
    r.corrupted = {{"fog", 1, {0.1, 1}}};
    apps::add_evaluation(at("."), r);
    all = apps::read_evaluations<Results>(at("."));
    REQUIRE(all.size() == ++count);
    CHECK(all[0].corrupted.size() == 3);
    CHECK(all[0].corrupted[0].scores.top1 == 0.7);
    CHECK(alike(all.back(), r));
    CHECK(all.back().scores.top1 == 0.2);
    // Measured once more, it takes its own place, at the end.
    apps::add_evaluation(at("."), r);
    CHECK(apps::read_evaluations<Results>(at(".")).size() == count);
  }
  // Another processor or number of threads is no other program.
  Results elsewhere = clean_results(0.91);
  elsewhere.made_by["threads"] = 64;
  apps::add_evaluation(at("."), elsewhere);
  CHECK(apps::read_evaluations<Results>(at(".")).size() == count);

  apps::write_file_atomically(at("eval.json"), "{\"evaluations\": [{}]}");
  CHECK(message_of([&] { apps::read_evaluations<Results>(at(".")); }).find("eval.json") != std::string::npos);
}

TEST_CASE("report: commands repeat what was evaluated, and no other combination") {
  const Scratch at("commands");
  write_run(at("run"), small_config("rpc", 0));
  Results r = clean_results(0.9);
  r.corrupted = {{"fog", 1, {0.7, 1}}, {"fog", 2, {0.6, 1}}, {"snow", 2, {0.5, 1}}, {"frost", 2, {0.5, 1}}};
  for (const char* attack : {"pgd", "fgsm"})
    for (const double budget : {1, 6}) r.attacked.push_back({attack, "normalised", budget, "", 0.5, 1, 0.1});
  r.attacked.push_back({"apgd-ce", "normalised", 4, "", 0.5, 1, 0.1});
  r.attacked.push_back({"noise", "normalised", 0.3, "", 0.5, 1, 0.1});
  for (const char* attack : {"pgd-l2", "square-l2"})
    r.attacked.push_back({attack, "normalised", 0.5, "", 0.5, 1, 0.1});
  r.attacked.push_back({"apgd-ce-l2", "normalised", 1, "", 0.5, 1, 0.1});
  apps::add_evaluation(at("run"), r);
  RunRecord record(at("run"));
  const std::string eval = "classify eval --checkpoint " + at("run");
  const std::string attack = eval + " --attack ", space = " --attack-space normalised";
  CHECK(page_of(record).commands ==
        std::vector<std::string>{
            eval + " --corruptions fog --severities 1,2", eval + " --corruptions frost,snow --severities 2",
            attack + "apgd-ce,apgd-ce-l2,noise" + space + " --budgets 4 --l2-budgets 1",
            attack + "fgsm,pgd,pgd-l2,square-l2" + space + " --budgets 1,6 --l2-budgets 0.5"});
  r.corrupted.clear();
  r.attacked.clear();
  write_run(at("clean"), small_config("rpc", 0));
  apps::add_evaluation(at("clean"), r);
  RunRecord clean(at("clean"));
  CHECK(page_of(clean).commands == std::vector<std::string>{"classify eval --checkpoint " + at("clean")});
}

TEST_CASE("results: files of before are read, and what they mixed is taken apart") {
  const Scratch at("old");
  apps::write_file_atomically(at("eval.json"), R"({"evaluations": [{"data": "synthetic test", "ema": true,
      "step": 7, "seed": 3, "count": 50, "top1": 0.9, "top5": 1, "loss": 0.5, "classes": ["cat", "dog"],
      "confusion": [20, 5, 5, 20],
      "corrupted": [{"name": "fog", "severity": 1, "count": 50, "top1": 0.7, "top5": 1},
                    {"name": "snow", "severity": 1, "count": 10, "top1": 0.1, "top5": 1}],
      "attacked": [{"attack": "pgd", "space": "pixel", "budget": 3, "count": 10, "top1": 0.2, "top5": 1, "l2": 1}]}]})");
  const std::vector<Results> all = apps::read_evaluations<Results>(at("."));
  REQUIRE(all.size() == 2);
  const Results &few = all[0], &rest = all[1];
  CHECK(few.count == 10);
  CHECK(std::isnan(few.scores.top1));  // on those ten pictures it is not known
  CHECK(few.corrupted.size() == 1);
  CHECK(few.attacked.size() == 1);
  CHECK(rest.count == 50);
  CHECK(rest.scores.top1 == 0.9);
  CHECK(rest.weights == "ema");
  CHECK(rest.corrupted.size() == 1);
  CHECK(rest.attacked.empty());
  CHECK(program(rest) == "not recorded");

  // New results have a known program and do not replace the old ones.
  Results now = rest;
  now.made_by = {{"version", "1"}, {"commit", "a"}};
  apps::add_evaluation(at("."), now);
  CHECK(apps::read_evaluations<Results>(at(".")).size() == 3);
}

namespace {

Results all_corrupted() {
  Results r = clean_results(0.9);
  int n = 0;
  for (const std::string& name : data::corruption_names()) {
    for (int severity = 1; severity <= 5; ++severity)
      r.corrupted.push_back({name, severity, {0.9 - 0.1 * severity - 0.005 * n, 1}});
    ++n;
  }
  return r;
}

}  // namespace

TEST_CASE(
    "results: mCE is the mean of errors over AlexNet's for ImageNet's 1000 classes, else the mean error") {
  Results r = all_corrupted();
  const MeanCorruptionError plain = mean_corruption_error(r).value();
  CHECK(!plain.relative);
  CHECK(std::string(plain.name()) == "mean corruption error");
  CHECK(plain.value == doctest::Approx(0.4 + 0.005 * 7));
  CHECK(!summarise(r)[0].ce);
  CHECK(summarise(r)[0].error.value() == doctest::Approx(0.4));

  r.classes.clear();
  for (int c = 0; c < 1000; ++c) r.classes.push_back(fmt::format("n{:08}", 1440764 + c));
  double want = 0;
  for (size_t i = 0; i < 15; ++i)
    want += (0.4 + 0.005 * double(i)) / data::alexnet_error(data::corruption_names()[i]) / 15;
  const MeanCorruptionError mce = mean_corruption_error(r).value();
  CHECK(mce.relative);
  CHECK(std::string(mce.name()) == "mCE");
  CHECK(mce.value == doctest::Approx(want));
  CHECK(summarise(r)[0].ce.value() == doctest::Approx(0.4 / 0.886428));
  CHECK(mean_corrupted_top1(r).value() == doctest::Approx(0.6 - 0.005 * 7));

  // 1000 classes of something else, and part of ImageNet's.
  Results other = r;
  other.classes[7] = "cat";
  CHECK(!mean_corruption_error(other)->relative);
  other = r;
  other.left_out = 1;
  CHECK(!mean_corruption_error(other)->relative);

  r.corrupted.pop_back();
  CHECK(!mean_corruption_error(r));
  CHECK(mean_corrupted_top1(r).has_value());
  CHECK(!mean_corrupted_top1(clean_results(0.9)));
}

TEST_CASE("attack curve: begins at the accuracy of the same pictures without attack") {
  Results r = clean_results(0.9);
  r.attacked = {{"fgsm", "pixel", 4, "", 0.3, 1, 0.5}, {"fgsm", "pixel", 2, "", 0.6, 1, 0.5}};
  using Points = std::vector<std::pair<double, double>>;
  CHECK(attack_curve(r, "fgsm", "pixel") == Points{{0, 90}, {2, 60}, {4, 30}});
  CHECK(attack_curve(r, "fgsm", "normalised").empty());
  CHECK(attack_curve(r, "pgd", "pixel").empty());
  r.scores.top1 = NAN;  // not known on these pictures
  CHECK(attack_curve(r, "fgsm", "pixel") == Points{{2, 60}, {4, 30}});
}

TEST_CASE("attacks: signs of a hidden gradient are told") {
  Results r = clean_results(0.9);
  r.attacked = {{"apgd-ce", "pixel", 8, "", 0.6, 1, 0.5},
                {"square", "pixel", 8, "", 0.5, 1, 0.5},
                {"pgd", "pixel", 255, "", 0.2, 1, 0.5}};
  const std::vector<std::string> notes = masking_notes(r);
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].find("at 8/255 Square, which uses none, leaves 50.0 %, apgd-ce leaves 60.0 %") !=
        std::string::npos);
  CHECK(notes[1].find("pgd with the whole range of pixels leaves 20.0 %") != std::string::npos);
  r.attacked[0].top1 = 0.4;  // APGD is the better one, as it should be
  r.attacked[2].top1 = 0;
  CHECK(masking_notes(r).empty());
  r.attacked[0].top1 = 0.6;
  r.attacked[1].budget = 4;  // another budget
  CHECK(masking_notes(r).empty());

  // More steps should leave fewer right.
  r.attacked = {{"pgd", "pixel", 8, "20 steps", 0.4, 1, 0.5, "--pgd-step 0.1", 20},
                {"pgd", "pixel", 8, "200 steps", 0.5, 1, 0.5, "--pgd-step 0.1 --pgd-steps 200", 200}};
  REQUIRE(masking_notes(r).size() == 1);
  CHECK(masking_notes(r)[0].find("at 8/255 pgd of 20 steps leaves 40.0 %, of 200 steps 50.0 %") !=
        std::string::npos);
  r.attacked[1].surrogate = "other";  // another model's pictures
  CHECK(masking_notes(r).empty());
  r.attacked[1].surrogate.clear();
  r.attacked[1].arguments = "--pgd-step 0.2 --pgd-steps 200";  // not the steps alone
  CHECK(masking_notes(r).empty());
  r.attacked[1].arguments = "--pgd-steps 200 --pgd-step 0.1";
  CHECK(masking_notes(r).size() == 1);
  r.attacked[1].top1 = 0.405;  // within a point
  CHECK(masking_notes(r).empty());
}

TEST_CASE("attack curve: of one setting, and of the model's own pictures") {
  Results r = clean_results(0.9);
  r.attacked = {{"pgd", "pixel", 4, "20 steps", 0.3, 1, 0.5}, {"pgd", "pixel", 2, "20 steps", 0.6, 1, 0.5}};
  r.attacked.push_back({"pgd", "pixel", 4, "200 steps", 0.2, 1, 0.5});
  r.attacked.push_back({"pgd", "pixel", 4, "20 steps", 0.8, 1, 0.5, "", 20, "other", "softmax"});
  using Points = std::vector<std::pair<double, double>>;
  CHECK(attack_curve(r, "pgd", "pixel") == Points{{0, 90}, {2, 60}, {4, 30}});
}

TEST_CASE("restricted: the classes that the data lacks are never predicted and count for nothing") {
  const Tensor logits = from_vector(std::vector<float>{5, 1, 4, 2, 0, 9, -3, 8}, {2, 4});
  const Tensor some = restricted(logits, {1, 3});
  CHECK(argmax(some).to(DType::f32).to_vector() == std::vector<double>{3, 1});
  const Tensor p = softmax(some);
  const std::vector<double> values = p.to_vector();
  CHECK(values[0] == 0);
  CHECK(values[1] == doctest::Approx(std::exp(1.0) / (std::exp(1.0) + std::exp(2.0))));
  CHECK(restricted(logits, {0, 1, 2, 3}).to_vector() == logits.to_vector());
}

TEST_CASE("attacks on some classes see only these, and labels as places among them") {
  Tensor logits = from_vector(std::vector<float>{5, 1, 4, 2, 0, 9, -3, 8}, {2, 4});
  logits.requires_grad();
  const Tensor some = logits_of({1, 3}, logits);
  CHECK(some.to_vector() == std::vector<double>{1, 2, 9, 8});
  some.backward(from_vector(std::vector<float>{1, 2, 3, 4}, {2, 2}));
  CHECK(logits.grad().to_vector() == std::vector<double>{0, 1, 0, 2, 0, 3, 0, 4});
  CHECK(logits_of({0, 1, 2, 3}, logits).to_vector() == logits.to_vector());
  const Tensor labels = from_vector(std::vector<int64_t>{3, 1}, {2});
  CHECK(labels_among({1, 3}, labels).to_vector() == std::vector<double>{1, 0});
  CHECK(message_of([&] {
          labels_among({0, 1}, labels);
        }).find("class 3 does not occur") != std::string::npos);
}
