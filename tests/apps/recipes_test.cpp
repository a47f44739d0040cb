#include <doctest/doctest.h>

#include <fstream>

#include "apps/classify/config.h"
#include "apps/lm/config.h"
#include "apps/run/fields.h"
#include "apps/segment/config.h"
#include "tests/apps/config_of_recipe.h"
#include "tests/temporary_folder.h"

using namespace pursuit;

namespace {

// Every recipe is read as its program's own options are, and its values are ones that can be trained with.
template <class Config> void check_recipes(const std::string& app, size_t at_least) {
  const std::vector<std::string> names = apps::recipe_names(app);
  CHECK(names.size() >= at_least);
  for (const std::string& name : names) {
    CAPTURE(name);
    Config config;
    CHECK_NOTHROW(config = config_of_recipe<Config>(app, name));
    CHECK_NOTHROW(validate(config));
    CHECK(apps::options_to_json(config) != apps::options_to_json(Config{}));
  }
}

}  // namespace

TEST_CASE("config: what --layers replaced is still read") {
  const auto layers_of = [](const char* attention, const char* name, int64_t value) {
    const nlohmann::ordered_json json = {{"attention", attention}, {"depth", 4}, {name, value}};
    return name == std::string("layer") ? apps::fields_from_json<classify::Config>(json, "old").layers
                                        : apps::fields_from_json<lm::Config>(json, "old").layers;
  };
  CHECK(layers_of("rpc", "layer", -1) == "all");
  CHECK(layers_of("rpc", "layer", 2) == "2");
  CHECK(layers_of("rpc", "iterated-layers", 2) == "0-1");
  CHECK(layers_of("rpc", "iterated-layers", 9) == "0-3");
  CHECK(layers_of("rpc", "iterated-layers", 0) == "none");
  CHECK(layers_of("softmax", "layer", 0) == "auto");  // it did not matter there
}

TEST_CASE("recipes: classify's are valid") { check_recipes<classify::Config>("classify", 10); }
TEST_CASE("recipes: lm's are valid") { check_recipes<lm::Config>("lm", 5); }
TEST_CASE("recipes: segment's are valid") { check_recipes<segment::Config>("segment", 8); }

TEST_CASE("recipes: options beside one win, lists too") {
  const auto config = [](const std::vector<std::string>& beside) {
    return config_of_recipe<lm::Config>("lm", "published-softmax", beside);
  };
  CHECK(config({}).cutoffs == std::vector<int64_t>{20000, 40000, 200000});
  CHECK(config({"--cutoffs=500,1000", "--clip-norm=0"}).cutoffs == std::vector<int64_t>{500, 1000});
  CHECK(config({"--cutoffs=500,1000", "--clip-norm=0"}).clip_norm == 0);
}

TEST_CASE("recipes: a byte order mark is no part of the first setting") {
  const TemporaryFolder at;
  std::ofstream(at.path / "own.toml") << "\xef\xbb\xbf"
                                      << "dim = 64\ndepth = 3\n";
  const auto config = config_of_recipe<classify::Config>("classify", at.file("own.toml"));
  CHECK(config.dim == 64);
  CHECK(config.depth == 3);
}

TEST_CASE("recipes: choices by their names, and others refused with the file and the names") {
  const TemporaryFolder at;
  const auto written = [&](const std::string& text) {
    std::ofstream(at.path / "own.toml") << text;
    return config_of_recipe<classify::Config>("classify", at.file("own.toml"));
  };
  CHECK(written("optimizer = \"sgd\"\ncrop = \"padded\"\n").optimizer == nn::OptimizerConfig::Kind::sgd);
  CHECK(written("crop = \"padded\"\n").crop == classify::Crop::padded);
  std::string said;
  try {
    written("optimizer = \"adam\"\n");
  } catch (const Error& e) {
    said = e.what();
  }
  CHECK(said.find("own.toml") != std::string::npos);
  CHECK(said.find("need one of adamw, sgd") != std::string::npos);
}
