#include <doctest/doctest.h>

#include <fstream>

#include "apps/route/route.h"
#include "apps/training/checkpoint.h"
#include "nn/init.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

using namespace pursuit;

namespace {

// The file of a model that learnt nothing.
std::string untrained(const TemporaryFolder& folder, route::Kind kind) {
  route::Config config;
  config.kind = kind;
  config.dim = config.hidden = 8;
  config.layers = config.heads = 1;
  route::Model model(route::model_config(config));
  nn::initialise(model, nn::Init::pytorch, 0);
  const std::string file = folder.file(std::string(choice_name(kind)) + ".safetensors");
  apps::save_weights(file, route::Config::app, apps::fields_to_json(config), model);
  return file;
}

std::string written(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  return path;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("route: an option of the other model is refused with the reason") {
  const TemporaryFolder folder;
  const std::string file = written(
      folder.file("a.tsp"),
      "TYPE : TSP\nDIMENSION : 3\nEDGE_WEIGHT_TYPE : EUC_2D\nNODE_COORD_SECTION\n1 0 0\n2 9 0\n3 0 9\n");
  const auto said = [&](route::Kind kind, int64_t rrc, uint64_t seed) {
    route::SolveOptions options;
    options.checkpoint = untrained(folder, kind);
    options.file = file;
    options.rrc = rrc;
    options.seed = seed;
    return message_of([&] { route::solve(options); });
  };
  CHECK(has(said(route::Kind::pomo, 0, 3), "--seed belongs to lehd; the run is of pomo"));
  CHECK(has(said(route::Kind::pomo, 5, 3), "--rrc belongs to lehd; the run is of pomo"));
  CHECK(has(said(route::Kind::lehd, 0, 3), "--seed is of the draws of --rrc; give both"));
}

TEST_CASE("route: as many uniform instances as can be labelled") {
  const TemporaryFolder folder;
  route::EvalOptions options;
  options.checkpoint = untrained(folder, route::Kind::lehd);
  options.quiet = true;
  options.limit = 1000001;
  const std::string need = ", need at most 1000000 uniform instances with labels";
  CHECK(has(message_of([&] { route::eval(options); }), "--limit is 1000001" + need));

  route::Config config;
  config.instances = 1000001;
  CHECK(has(message_of([&] { route::validate(config); }), "--instances is 1000001" + need));
  config.data = "a.txt";  // has the labels
  CHECK_NOTHROW(route::validate(config));
  config.data.clear();
  config.kind = route::Kind::pomo;  // needs none
  CHECK_NOTHROW(route::validate(config));
  config.kind = route::Kind::lehd;
  config.instances = 1000000;
  CHECK_NOTHROW(route::validate(config));
}

TEST_CASE("route: an instance that is too large for savings is named") {
  const TemporaryFolder folder;
  std::string large = "['large\x1b', '7'";
  for (int i = 0; i < 10001; ++i) large += ", '0', '0'";
  route::EvalOptions options;
  options.checkpoint = untrained(folder, route::Kind::lehd);
  options.quiet = true;
  options.data =
      written(folder.file("a.txt"), "['small', '7', '0', '0', '0', '1', '1', '1']\n" + large + "]\n");
  const std::string message = message_of([&] { route::eval(options); });
  CAPTURE(message);
  CHECK(has(message, "a.txt: large"));
  CHECK(has(message, " has 10001 nodes; leave it out with --max-nodes 10000"));
  CHECK(!has(message, "\x1b"));
  CHECK(route::read_instances(options.data, 0, 10000).all.size() == 1);
}

TEST_CASE("route: only distances that are rounded are said to be") {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& text) {
    const std::string path = written(folder.file("zero.txt"), text);
    return message_of([&] { route::read_instances(path, 0, 0); });
  };
  const std::string exact = said("0 0 0 0 0 0 output 1 2 3 1\n");
  CHECK(has(exact, "zero.txt: all distances of an instance are 0"));
  CHECK(!has(exact, "rounds"));
  CHECK(has(said("['x', '0', '0', '0', '0', '0.1', '0.1', '0.1']\n"),
            "all distances of x are 0; EUC_2D rounds them to whole numbers"));
}
