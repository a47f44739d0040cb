#include "apps/study/inspection.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "apps/classify/results.h"
#include "apps/run/files.h"
#include "apps/run/metrics.h"
#include "apps/run/run_folder.h"
#include "apps/study/comparison.h"
#include "apps/study/inspect_command.h"
#include "apps/training/checkpoint.h"
#include "data/image.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::classify;
namespace fs = std::filesystem;

namespace {

Config tiny(double inspect_every) {
  Config c;
  c.attention = "rpc";
  c.patch = 8;
  c.dim = 8;
  c.depth = c.heads = 2;
  c.mlp_ratio = 1;
  c.dropout = 0.1;
  c.limit = c.test_limit = 8;
  c.batch_size = 4;
  c.epochs = 3;
  c.ema = 0.5;
  c.threads = 1;
  c.workers = 0;
  c.device = "cpu";
  c.inspect_every = inspect_every;
  return c;
}

apps::RunOptions to(const std::string& folder) {
  apps::RunOptions o;
  o.out = folder;
  o.quiet = true;
  return o;
}

nlohmann::ordered_json parsed(const std::string& file) {
  return nlohmann::ordered_json::parse(apps::read_file(file));
}

}  // namespace

TEST_CASE("inspect: a run's file, film strip and report") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(train(tiny(0), to(run)) == 0);
  apps::InspectPicturesOptions options;
  options.checkpoint = run;
  options.samples = 3;
  options.decomposed = 2;
  REQUIRE(apps::inspect_pictures<RunRecord>(options, show_split) == 0);

  const nlohmann::ordered_json json = parsed(run + "/inspect.json");
  CHECK(json["conditions"]["samples"] == 3);
  CHECK(json["conditions"]["step"] == 6);
  const std::vector<nn::LayerMeasures> layers = apps::layers_from_json(json["layers"]);
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].kind == "rpc");
  CHECK(layers[0].heads[1].pursuit.size() == 4);
  CHECK(apps::to_json(layers).dump() == json["layers"].dump());
  // Four iterations of L and S beside the picture, of 16 patches.
  const data::Image film = data::read_image(run + "/inspect.png");
  CHECK(film.width > 2 * film.height);
  const std::string page = apps::read_file(run + "/report.html");
  for (const char* part : {"Attention as kernel PCA", "Eigenvalues of the centred Gram matrix", "of random",
                           "Low-rank and sparse parts", "Singular values in blocks.0"})
    CHECK_MESSAGE(page.find(part) != std::string::npos, part);

  // What is not finite is null in the file.
  nlohmann::ordered_json broken = json["layers"];
  broken[0]["heads"][0]["j_proj"] = nullptr;
  CHECK(std::isnan(apps::layers_from_json(broken)[0].heads[0].projection.paper));
  broken[0]["heads"][0]["j_proj"] = "high";
  CHECK(message_of([&] { apps::layers_from_json(broken); }).find("high") != std::string::npos);
  broken = json["layers"];
  broken[0]["heads"][1]["pursuit"].erase(0);
  CHECK(message_of([&] { apps::layers_from_json(broken); }).find("numbers of iterations") !=
        std::string::npos);
}

TEST_CASE("inspect: training that is inspected is the same bit for bit") {
  const TemporaryFolder folder;
  const std::string plain = folder.file("plain"), watched = folder.file("watched");
  REQUIRE(train(tiny(0), to(plain)) == 0);
  REQUIRE(train(tiny(0.5), to(watched)) == 0);
  const auto weights = [](const std::string& run) {
    return apps::open_checkpoint("classify", run).file.tensors;
  };
  const auto a = weights(plain), b = weights(watched);
  REQUIRE(a.size() == b.size());
  for (const auto& tensor : a) {
    CAPTURE(tensor.first);
    CHECK(tensor.second.to_vector() == b.at(tensor.first).to_vector());
  }

  const auto lines = apps::read_metrics(apps::inspections_path(watched));
  REQUIRE(lines.size() == 7);  // before training and after each of six steps
  CHECK(lines[0]["step"] == 0);
  CHECK(lines[6]["step"] == 6);
  CHECK(apps::layers_from_json(lines[6]["layers"]).size() == 2);
  const auto metrics = apps::read_metrics(watched + "/metrics.jsonl");
  CHECK(apps::metric_series(metrics, "inspect_j_proj").size() == 7);
  CHECK(apps::metric_series(metrics, "inspect_gamma_relative").size() == 7);

  // A comparison's columns are what their headings say.
  apps::ComparedRun compared;
  compared.add_training(apps::RunFolder(watched));
  const auto value_of = [&](const std::string& name) {
    for (const apps::ComparedRun::Value& v : compared.values)
      if (v.column.name == name) return v.value;
    return std::nan("");
  };
  const std::vector<std::pair<const char*, const char*>> columns = {
      {"J_proj, paper", "inspect_j_proj"},
      {"J_proj, |h|^2", "inspect_output_norm2"},
      {"J_proj, |varphi(q)|^2", "inspect_query_norm2"},
      {"Entropy of the attention", "inspect_entropy"},
      {"r of W_QK, r", "inspect_r"}};
  for (const auto& column : columns) {
    CAPTURE(column.first);
    CHECK(value_of(column.first) == apps::metric_series(metrics, column.second).back().second);
  }
  // One that is not finite at the last inspection is not an older one.
  apps::RunFolder folder_of(watched);
  folder_of.metrics.push_back({{"step", 7}, {"inspect_entropy", nullptr}});
  CHECK_FALSE(folder_of.last("inspect_entropy").has_value());
  CHECK_FALSE(fs::exists(apps::inspections_path(plain)));
  const std::string page = apps::read_file(watched + "/report.html");
  CHECK(page.find("J_proj as published") != std::string::npos);
  CHECK(page.find("Eigenvalues of W_QK") != std::string::npos);
}
