#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "apps/classify/commands.h"
#include "apps/classify/results.h"
#include "apps/common/files.h"
#include "apps/common/metrics.h"
#include "data/corruptions.h"
#include "engine/error.h"

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
  r.step = 100;
  r.count = 50;
  r.top1 = top1;
  r.top5 = 1;
  r.loss = 0.5;
  r.classes = {"cat", "dog"};
  r.confusion = {20, 5, 5, 20};
  return r;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
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
    r.attacked = {{"pgd", "normalised", 1, 50, 0.5, 1, 0.1},
                  {"pgd", "normalised", 6, 50, 0.1 * double(seed), 1, 0.2},
                  {"fgsm", "pixel", 4, 50, 0.4, 1, 0.2}};
    merge_results(folders.back(), r);
  }
  folders.insert(folders.begin() + 1, at("softmax"));
  write_run(folders[1], small_config("softmax", 0));

  const apps::Comparison c = compare_runs(folders);
  REQUIRE(c.groups.size() == 2);
  CHECK(c.groups[0].names == std::vector<std::string>{"rpc-0", "rpc-1", "rpc-2"});
  CHECK(c.groups[1].names == std::vector<std::string>{"softmax"});
  const apps::Measure& top1 = c.groups[0].measures.at("top-1");
  CHECK(top1.mean() == doctest::Approx(84));
  CHECK(top1.spread() == doctest::Approx(std::sqrt((16 + 1 + 25) / 2.0)));
  CHECK(c.groups[0].measures.at("pgd 6/255").mean() == doctest::Approx(10));
  CHECK(c.groups[0].measures.at("fgsm 4/255 (pixel)").spread() == doctest::Approx(0));
  std::vector<std::string> columns;
  for (const apps::Column& column : c.columns) columns.push_back(column.name);
  CHECK(columns == std::vector<std::string>{"top-1", "pgd 6/255", "fgsm 4/255 (pixel)", "test loss"});
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
  CHECK(json["rows"][0]["measures"]["top-1"]["values"].size() == 3);
  CHECK(json["rows"][1]["options"]["attention"] == "softmax");
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
  const apps::Comparison c = compare_runs({at("a")});
  const auto& m = c.groups.at(0).measures;
  CHECK(m.at("images/s").mean() == 1000);
  CHECK(m.at("train time").mean() == 150);
  CHECK(m.at("top-1").mean() == 25);
  CHECK(m.at("train loss").mean() == 1.5);
  CHECK(!m.contains("test loss"));
}

TEST_CASE("compare: unlike evaluations are noted") {
  const Scratch at("notes");
  for (const char* name : {"a", "b"})
    write_run(at(name), small_config(name[0] == 'a' ? "rpc" : "softmax", 0));
  merge_results(at("a"), clean_results(0.5));
  Results other = clean_results(0.6);
  other.count = 40;
  merge_results(at("b"), other);
  const apps::Comparison c = compare_runs({at("a"), at("b")});
  REQUIRE(c.notes.size() == 1);
  CHECK(c.notes[0].find("40, 50") != std::string::npos);
}

TEST_CASE("compare: a folder that is no run is named") {
  const Scratch at("wrong");
  fs::create_directories(at("empty"));
  const std::string empty = message_of([&] { compare_runs({at("empty")}); });
  CHECK(empty.find("empty") != std::string::npos);
  CHECK(empty.find("config.json") != std::string::npos);
  CHECK(message_of([&] { compare_runs({at("nowhere")}); }).find("nowhere") != std::string::npos);
  write_run(at("damaged"), small_config("rpc", 0));
  apps::write_file_atomically(at("damaged") + "/config.json", "{\"attention\": ");
  CHECK(message_of([&] { compare_runs({at("damaged")}); }).find("damaged") != std::string::npos);
}

TEST_CASE("results: later evaluations add to earlier ones") {
  const Scratch at("results");
  CHECK(!read_results(at(".")));
  Results first = clean_results(0.9);
  first.corrupted = {{"fog", 1, 50, 0.7, 1}, {"fog", 2, 50, 0.6, 1}};
  merge_results(at("."), first);
  Results second = clean_results(0.91);
  second.corrupted = {{"fog", 2, 50, 0.65, 1}, {"snow", 1, 50, 0.5, 1}};
  second.attacked = {{"fgsm", "pixel", 4, 20, 0.3, 1, 0.5}};
  merge_results(at("."), second);

  Results r = read_results(at(".")).value();
  CHECK(r.top1 == 0.91);
  CHECK(r.confusion == first.confusion);
  REQUIRE(r.corrupted.size() == 3);
  CHECK(r.corrupted[0].top1 == 0.7);
  CHECK(r.corrupted[1].top1 == 0.65);
  CHECK(r.corrupted[2].name == "snow");
  REQUIRE(r.attacked.size() == 1);
  CHECK(r.attacked[0].l2 == 0.5);

  // A quick look at fewer pictures does not take the place of a whole evaluation, but adds what is new.
  Results quick = clean_results(0.2);
  quick.count = 5;
  quick.corrupted = {{"fog", 1, 5, 0.1, 1}, {"frost", 1, 5, 0.1, 1}};
  merge_results(at("."), quick);
  r = read_results(at(".")).value();
  CHECK(r.count == 50);
  CHECK(r.corrupted[0].top1 == 0.7);
  CHECK(r.corrupted.size() == 4);

  // Averaged weights are kept apart, and come back when they are evaluated again.
  Results ema = clean_results(0.95);
  ema.ema = true;
  merge_results(at("."), ema);
  CHECK(read_results(at("."))->corrupted.empty());
  merge_results(at("."), clean_results(0.91));
  CHECK(read_results(at("."))->corrupted.size() == 4);

  // Weights of another step make everything old.
  Results later = clean_results(0.92);
  later.step = 200;
  merge_results(at("."), later);
  CHECK(read_results(at("."))->corrupted.empty());

  apps::write_file_atomically(at("eval.json"), "{\"evaluations\": [{}]}");
  CHECK(message_of([&] { read_results(at(".")); }).find("eval.json") != std::string::npos);
}

TEST_CASE("results: mCE is the mean of errors over AlexNet's, once all were measured") {
  std::vector<Results::Corrupted> all;
  double want = 0;
  int n = 0;
  for (const std::string& name : data::corruption_names()) {
    double error = 0;
    for (int severity = 1; severity <= 5; ++severity) {
      const double top1 = 0.9 - 0.1 * severity - 0.005 * n;
      all.push_back({name, severity, 50, top1, 1});
      error += (1 - top1) / 5;
    }
    want += error / data::alexnet_error(name) / 15;
    ++n;
  }
  CHECK(mean_corruption_error(all).value() == doctest::Approx(want));
  CHECK(mean_corrupted_top1(all).value() == doctest::Approx(0.6 - 0.005 * 7));
  CHECK(summarise(all)[0].ce.value() == doctest::Approx(0.4 / 0.886428));
  all.pop_back();
  CHECK(!mean_corruption_error(all));
  CHECK(mean_corrupted_top1(all).has_value());
  CHECK(!mean_corrupted_top1({}));
}
