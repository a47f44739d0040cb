#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <set>

#include "apps/classify/config.h"
#include "apps/command/recipes.h"
#include "apps/run/fields.h"
#include "apps/run/files.h"
#include "apps/segment/commands.h"
#include "apps/segment/pipeline.h"
#include "apps/segment/results.h"
#include "apps/training/checkpoint.h"
#include "engine/base/error.h"
#include "nn/init.h"
#include "nn/vit.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::segment;
namespace fs = std::filesystem;

namespace {

Config tiny(nn::SegmenterDecoder decoder = nn::SegmenterDecoder::linear) {
  Config c;
  c.height = 32;
  c.width = 48;
  c.patch = 16;
  c.dim = 12;
  c.depth = 1;
  c.heads = 2;
  c.decoder = decoder;
  c.batch_size = 2;
  c.limit = 4;
  c.test_limit = 3;
  c.epochs = 1;
  c.eval_every = 0;
  c.threads = 1;
  c.workers = 0;
  c.device = "cpu";
  return c;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

apps::RunOptions into(const std::string& folder) {
  apps::RunOptions o;
  o.out = folder;
  o.quiet = true;
  return o;
}

}  // namespace

TEST_CASE("segment: a config comes back from JSON, bad values are named") {
  Config config = tiny(nn::SegmenterDecoder::mask);
  config.classes = {"a", "b"};
  config.colours = {{1, 2, 3}, {4, 5, 6}};
  config.mean = config.std = {0.5, 0.5, 0.5};
  const auto json = apps::fields_to_json(config);
  CHECK(apps::fields_to_json(apps::fields_from_json<Config>(json, "config.json")) == json);
  CHECK_NOTHROW(validate(config));
  const auto refused = [](const char* option, const std::function<void(Config&)>& change) {
    Config c = tiny();
    change(c);
    CHECK_MESSAGE(contains(message_of([&] { validate(c); }), option), std::string(option));
  };
  refused("--height", [](Config& c) { c.height = 33; });
  refused("--width", [](Config& c) { c.width = 0; });
  refused("--patch", [](Config& c) { c.patch = 0; });
  refused("--dim", [](Config& c) { c.dim = 13; });
  refused("--layers", [](Config& c) { c.layers = "1"; });
  refused("--stride", [](Config& c) { c.stride = 33; });
  refused("--scales", [](Config& c) { c.scales = {}; });
  refused("--ratio-max", [](Config& c) { c.ratio_max = 0.1; });
  refused("--max-class-share", [](Config& c) { c.max_class_share = 0; });
  refused("--validation", [](Config& c) { c.validation = data::Split::train; });
  refused("colours", [](Config& c) { c.classes = {"a"}; });
  refused("attention", [](Config& c) { c.attention = "none"; });
  CHECK(contains(message_of([] {
                   apps::fields_from_json<Config>({{"height", "tall"}}, "x.json");
                 }),
                 "x.json"));
  for (const nlohmann::ordered_json& value : {nlohmann::ordered_json("conv"), nlohmann::ordered_json(1)})
    CHECK(contains(message_of([&] {
                     apps::fields_from_json<Config>({{"decoder", value}}, "x.json");
                   }),
                   "need one of linear, mask"));
  CHECK(contains(message_of([] { apps::fields_from_json<Config>(nlohmann::json::array(), "x.json"); }),
                 "x.json"));
}

TEST_CASE("segment: a run trains, is evaluated, reported, compared and used") {
  const TemporaryFolder folder;
  const auto at = [&](const std::string& name) { return folder.file(name); };
  const std::string run = at("run");
  Config config = tiny(nn::SegmenterDecoder::mask);
  config.validation = data::Split::test;
  config.stride = 16;
  config.scales = {1, 1.5};
  config.eval_flip = true;
  REQUIRE(train(config, into(run)) == 0);
  const Results first = apps::read_evaluations<Results>(run).back();
  CHECK(first.views == "own size, stride 16, scales 1,1.5, flip");
  CHECK(first.count == 3);
  CHECK(first.step == 2);
  CHECK(first.data == "scenes test");
  CHECK(first.scores.pixel_accuracy >= 0);
  CHECK(contains(apps::read_file(run + "/report.html"), "Pictures of the test split"));

  EvalOptions e;
  e.checkpoint = run;
  e.load = {.device = "cpu", .threads = 1};
  e.limit = 3;
  e.quiet = true;
  EvalOptions once = e;
  once.views.stride = 0;
  once.views.scales = {1};
  once.views.flip = false;
  REQUIRE(eval(once) == 0);
  const Results seen_once = apps::read_evaluations<Results>(run).back();
  CHECK(seen_once.views == "own size, windows side by side");
  CHECK(contains(seen_once.options, "--stride 0 --scales 1 --no-flip"));

  e.corruptions = {"fog"};
  e.severities = {1, 2};
  e.save_predictions = at("predictions");
  REQUIRE(eval(e) == 0);
  const Results again = apps::read_evaluations<Results>(run).back();
  CHECK(again.views == first.views);
  CHECK(again.scores.mean_iou == first.scores.mean_iou);
  REQUIRE(again.corrupted.size() == 2);
  CHECK(again.count == 3);
  CHECK(std::distance(fs::directory_iterator(at("predictions")), {}) == 3);
  const std::string page = apps::read_file(run + "/report.html");
  CHECK(contains(page, "mIoU under each corruption"));
  CHECK(contains(page, "segment eval --checkpoint " + run + " --limit 3 --corruptions fog --severities 1,2"));

  const auto refused = [&](const char* what, const std::function<void(EvalOptions&)>& change) {
    EvalOptions bad = e;
    change(bad);
    CHECK_MESSAGE(contains(message_of([&] { eval(bad); }), what), std::string(what));
  };
  refused("--corruptions", [](EvalOptions& o) { o.corruptions = {"rain"}; });
  refused("--stride", [](EvalOptions& o) { o.views.stride = 33; });
  refused("--scales", [](EvalOptions& o) { o.views.scales = {0}; });
  refused("nowhere", [](EvalOptions& o) { o.checkpoint = "nowhere"; });

  data::write_png(at("a picture.png"), data::Image(40, 30, 3));
  apps::write_file_atomically(at("broken.png"), "not a picture");
  PredictOptions p;
  p.checkpoint = run;
  p.load.device = "cpu";
  p.out = at("out");
  p.images = {at("broken.png"), at("a picture.png")};
  CHECK(predict(p) == 1);
  for (const char* kind : {"classes", "mask", "overlay"}) {
    const data::Image made = data::read_image(at("out") + "/a picture-" + kind + ".png");
    CHECK(made.width == 40);
    CHECK(made.height == 30);
  }
  CHECK(fs::exists(at("out") + "/a picture-legend.png"));
  CHECK(!fs::exists(at("out") + "/broken-mask.png"));
  const apps::Comparison comparison = apps::compare_runs<RunRecord>({run, run});
  REQUIRE(comparison.groups.size() == 1);
  const auto& measures = comparison.groups[0].measures;
  // Each way to look at the pictures has columns of its own.
  const auto values = [&](const std::string& name, const std::string& views) {
    return measures.at(name + " (3, " + views + ")").values;
  };
  using Two = std::vector<double>;
  CHECK(values("mIoU", again.views) == Two(2, 100 * again.scores.mean_iou));
  CHECK(values("mIoU", seen_once.views) == Two(2, 100 * seen_once.scores.mean_iou));
  CHECK(values("pixel acc", again.views) == Two(2, 100 * again.scores.pixel_accuracy));
  CHECK(values("mIoU fog at 2", again.views) == Two(2, 100 * again.corrupted[1].scores.mean_iou));
  CHECK(contains(message_of([&] { apps::compare_runs<RunRecord>({at("out")}); }), "out"));
}

TEST_CASE("segment: options that change nothing are named") {
  using Names = std::set<std::string>;
  const auto unused = [](const std::function<void(Config&)>& change) {
    Config c = tiny(nn::SegmenterDecoder::mask);
    c.data = "folder";
    change(c);
    Names names;
    for (const auto& option : without_effect(c)) names.insert(option.first);
    return names;
  };
  CHECK(unused([](Config&) {}).empty());
  CHECK(unused([](Config& c) { c.long_side = 70; }) == Names{"long-side"});
  CHECK(unused([](Config& c) { c.short_side = c.long_side = 70; }).empty());
  CHECK(unused([](Config& c) { c.decoder = nn::SegmenterDecoder::linear; }) ==
        Names{"decoder-depth", "decoder-dropout", "decoder-attention-dropout", "decoder-activation-dropout",
              "iterate-decoder"});
  CHECK(unused([](Config& c) { c.data = ""; }) == Names{"jpeg-decoder", "cache-mib", "skip-bad"});
}

// Of a classifier whose encoder fits into tiny().
static classify::Config encoder_config() {
  classify::Config c;
  c.image_size = 64;
  c.patch = 16;
  c.dim = 12;
  c.depth = 1;
  c.heads = 2;
  c.mlp_ratio = 2;
  c.channels = 3;
  c.classes = {"cat", "dog"};
  c.mean = {0.1, 0.2, 0.3};
  c.std = {0.4, 0.5, 0.6};
  return c;
}

TEST_CASE("segment: an encoder gives the weights that its run is evaluated with, and mean and std") {
  const TemporaryFolder folder;
  classify::Config c = encoder_config();
  c.ema = 0.9;
  classify::Model classifier(classify::model_config(c));
  nn::initialise(classifier, nn::Init::timm, 5);
  nn::FlatParameters flat(classifier.parameters(), nn::decays_by_timm);
  nn::Optimizer optimizer(flat, {});
  const nn::Ema ema(flat, c.ema);
  const auto patches = [&] {
    for (const nn::NamedTensor& p : classifier.parameters())
      if (p.name == "patch_embed.proj.weight") return p.tensor->to_vector();
    return std::vector<double>{};
  };
  const std::vector<double> averaged = patches();
  nn::initialise(classifier, nn::Init::timm, 6);
  const std::vector<double> raw = patches();
  REQUIRE(averaged.size() == raw.size());
  REQUIRE(averaged != raw);

  Config config = tiny();
  const auto loaded = [&](const classify::Config& of_run, const nn::Ema* average) {
    config.encoder = folder.file("encoder.safetensors");
    apps::save_checkpoint(config.encoder, "classify", apps::fields_to_json(of_run), {}, classifier, optimizer,
                          average);
    config.classes = {"a", "b", "c"};
    nn::Segmenter model(model_config(config));
    load_encoder(model, config.encoder);
    for (const nn::NamedTensor& p : model.parameters())
      if (p.name == "encoder.patch_embed.proj.weight") return p.tensor->to_vector();
    return std::vector<double>{};
  };
  CHECK(loaded(c, &ema) == averaged);
  complete(config, *open_data(config, data::Split::train));
  CHECK(config.mean == c.mean);
  CHECK(config.std == c.std);
  classify::Config as_trained = c;
  as_trained.eval_weights = apps::EvalWeights::raw;
  CHECK(loaded(as_trained, &ema) == raw);
  CHECK(loaded(c, nullptr) == raw);

  c.channels = 1;
  loaded(c, nullptr);
  CHECK(contains(message_of([&] { complete(config, *open_data(config, data::Split::train)); }),
                 "encoder.safetensors: its channels is 1, need 3"));
}

TEST_CASE("segment: the encoder of a classifier is the start, its positions resized") {
  const TemporaryFolder folder;
  const auto at = [&](const std::string& name) { return folder.file(name); };
  const classify::Config c = encoder_config();
  classify::Model classifier(classify::model_config(c));
  nn::initialise(classifier, nn::Init::timm, 5);
  nn::FlatParameters flat(classifier.parameters(), nn::decays_by_timm);
  nn::Optimizer optimizer(flat, {});
  fs::create_directories(at("classifier"));
  apps::save_checkpoint(apps::checkpoint_path(at("classifier")), "classify", apps::fields_to_json(c), {},
                        classifier, optimizer, nullptr);

  Config config = tiny();
  config.classes = {"a", "b", "c"};
  nn::Segmenter model(model_config(config));
  load_encoder(model, at("classifier"));
  int64_t same = 0;
  std::map<std::string, Tensor> given;
  for (const nn::NamedTensor& p : classifier.parameters()) given[p.name] = *p.tensor;
  for (const nn::NamedTensor& p : model.parameters()) {
    if (!p.name.starts_with("encoder.") || p.name == "encoder.pos_embed") continue;
    const Tensor& from = given.at(p.name.substr(8));
    CHECK(p.tensor->to_vector() == from.to_vector());
    ++same;
  }
  CHECK(same > 10);

  config.classes.clear();
  config.encoder = at("classifier");
  CHECK(train(config, into(at("run"))) == 0);
  CHECK(apps::config_of_run(at("run"))["mean"] == nlohmann::ordered_json(c.mean));
  CHECK(apps::config_of_run(at("run"))["std"] == nlohmann::ordered_json(c.std));
  // Killed before its first checkpoint and resumed, it is the same run.
  fs::create_directories(at("again"));
  fs::copy_file(apps::config_path(at("run")), apps::config_path(at("again")));
  apps::RunOptions again;
  again.resume = at("again");
  again.quiet = true;
  CHECK(train(config, again) == 0);
  const auto weights = [&](const char* run) {
    return apps::open_checkpoint("segment", at(run), true).parameters();
  };
  const auto first = weights("run"), second = weights("again");
  REQUIRE(first.size() == second.size());
  for (size_t i = 0; i < first.size(); ++i) {
    INFO(first[i].first);
    CHECK(first[i].second.to_vector() == second[i].second.to_vector());
  }
  // What names and shapes do not show.
  for (const auto& [field, value] : {std::pair{"weight-bits", 8}, {"depth", 2}, {"heads", 3}}) {
    nlohmann::ordered_json other = apps::fields_to_json(c);
    other[field] = value;
    const std::string run = at(field);
    fs::create_directories(run);
    apps::save_checkpoint(apps::checkpoint_path(run), "classify", other, {}, classifier, optimizer, nullptr);
    CHECK(contains(message_of([&] { load_encoder(model, run); }), fmt::format("its {} is {}", field, value)));
  }
  config.dim = 24;
  CHECK(contains(message_of([&] { train(config, into(at("other"))); }), at("classifier")));
  CHECK(contains(message_of([&] { load_encoder(model, at("nowhere")); }), "nowhere"));
}
