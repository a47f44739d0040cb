#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "apps/classify/results.h"
#include "apps/page/heatmap.h"
#include "apps/run/files.h"
#include "apps/run/metrics.h"
#include "apps/study/export_command.h"
#include "data/image.h"
#include "engine/base/error.h"
#include "engine/files/safetensors.h"
#include "tests/apps/random_run.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::classify;

namespace {

Config tiny_config(const std::string& attention = "softmax") {
  Config c;
  c.attention = attention;
  c.image_size = 12;
  c.patch = 4;
  c.dim = 12;
  c.depth = 2;
  c.heads = 3;
  c.mlp_ratio = 2;
  c.kind_options["iterations"] = 2;
  c.channels = 3;
  c.classes = {"cat", "dog", "wéird & <b>", "ship", "frog"};
  c.mean = {0.5, 0.4, 0.3};
  c.std = {0.2, 0.3, 0.25};
  c.crop = Crop::padded;
  c.threads = 1;
  return c;
}

data::Image picture(int size, int channels = 3) {
  data::Image image(size, size, channels);
  Random random(5);
  for (uint8_t& p : image.pixels) p = uint8_t(random.below(256));
  return image;
}

std::vector<float> logits_of(const std::string& checkpoint) {
  return look_at(apps::load_model<Config>(checkpoint), picture(12)).logits;
}

// The output of `run` to stdout.
std::string stdout_of(const TemporaryFolder& f, const std::function<void()>& run) {
  std::fflush(stdout);
  const int before = dup(1);
  const int file = open(f.file("stdout").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  REQUIRE(file >= 0);
  dup2(file, 1);
  run();
  std::fflush(stdout);
  dup2(before, 1);
  close(before);
  close(file);
  return apps::read_file(f.file("stdout"));
}

size_t occurrences(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TensorFile exported(const TemporaryFolder& f, const Config& config) {
  make_run(f.file("run"), config);
  stdout_of(
      f, [&] { apps::export_weights(apps::load_model<Config>(f.file("run")), f.file("model.safetensors")); });
  return load_safetensors(f.file("model.safetensors"));
}

void import_into(const TemporaryFolder& f, const std::string& weights, const Config& options) {
  int code = -1;
  stdout_of(f, [&] { code = import_weights(f.file(weights), f.file("again"), options); });
  REQUIRE(code == 0);
}

// The options that are needed for a file written by PyTorch, which has no config.
Config options_for(const Config& config) {
  Config c;
  c.attention = config.attention;
  c.kind_options["iterations"] = config.kind_options.at("iterations");
  c.heads = config.heads;
  return c;
}

}  // namespace

TEST_CASE("export: an exported model is used and imported without loss") {
  for (const char* kind : {"softmax", "symmetric", "rpc", "gated", "scaled-s"}) {
    CAPTURE(kind);
    TemporaryFolder f;
    const TensorFile file = exported(f, tiny_config(kind));
    CHECK(file.metadata.at("format") == "pt");
    CHECK(file.tensors.at("blocks.1.attn.qkv.weight").size(0) ==
          (std::string(kind) == "symmetric" || std::string(kind) == "rpc" ? 24 : 36));
    CHECK(file.tensors.count("optimizer.first") == 0);
    const std::vector<float> expected = logits_of(f.file("run"));
    CHECK(std::abs(expected[0] - expected[1]) > 1e-3f);
    CHECK(logits_of(f.file("model.safetensors")) == expected);
    import_into(f, "model.safetensors", Config{});
    CHECK(logits_of(f.file("again")) == expected);
    const LoadedModel again = apps::load_model<Config>(f.file("again"));
    CHECK(apps::fields_to_json(again.config) == apps::fields_to_json(tiny_config(kind)));
    CHECK(std::filesystem::exists(f.file("again/config.json")));
  }
}

TEST_CASE("import: sizes come from the shapes, wrappers' prefixes go") {
  for (const char* prefix : {"", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."}) {
    CAPTURE(prefix);
    TemporaryFolder f;
    const Config config = tiny_config();
    TensorFile file = exported(f, config), wrapped;
    for (const auto& [name, t] : file.tensors) wrapped.tensors[prefix + name] = t;
    save_safetensors(f.file("timm.safetensors"), wrapped.tensors);
    import_into(f, "timm.safetensors", options_for(config));
    LoadedModel again = apps::load_model<Config>(f.file("again"));
    const Config& c = again.config;
    CHECK(c.image_size == 12);
    CHECK(c.patch == 4);
    CHECK(c.dim == 12);
    CHECK(c.depth == 2);
    CHECK(c.channels == 3);
    CHECK(c.mlp_ratio == 2);
    CHECK(c.classes == std::vector<std::string>{"0", "1", "2", "3", "4"});
    CHECK(c.mean == std::vector<double>{0.485, 0.456, 0.406});
    again.config.mean = config.mean;
    again.config.std = config.std;
    CHECK(look_at(again, picture(12)).logits == logits_of(f.file("run")));
  }
}

TEST_CASE("import: heads default to a width of 64, any MLP width survives the ratio") {
  TemporaryFolder f;
  Config config = tiny_config();
  config.dim = 192;
  config.depth = 1;
  config.heads = 3;
  config.mlp_ratio = 253.5 / 192;  // 253 hidden units, whose ratio to 192 is no binary fraction
  const TensorFile file = exported(f, config);
  REQUIRE(file.tensors.at("blocks.0.mlp.fc1.weight").size(0) == 253);
  save_safetensors(f.file("timm.safetensors"), file.tensors);
  Config options;
  options.heads = 0;
  import_into(f, "timm.safetensors", options);
  CHECK(apps::load_model<Config>(f.file("again")).config.heads == 3);
}

TEST_CASE("import: Scaled Attention's published names, s in both versions, tell the attention too") {
  for (const char* kind : {"scaled-s", "scaled-alpha"}) {
    CAPTURE(kind);
    TemporaryFolder f;
    const Config config = tiny_config(kind);
    TensorFile file = exported(f, config), official;
    int64_t renamed = 0;
    for (const auto& [name, t] : file.tensors) {
      const size_t at = std::min(name.find(".attn.S"), name.find(".attn.alpha"));
      official.tensors[at < name.size() ? name.substr(0, at) + ".attn.s" : name] = t;
      renamed += at < name.size();
    }
    CHECK(renamed == 2);
    for (const auto* tensors : {&official.tensors, &file.tensors}) {
      save_safetensors(f.file("official.safetensors"), *tensors);
      Config options = options_for(config);
      options.attention = "softmax";
      std::filesystem::remove_all(f.file("again"));
      import_into(f, "official.safetensors", options);
      LoadedModel again = apps::load_model<Config>(f.file("again"));
      CHECK(again.config.attention == kind);
      again.config.mean = config.mean;
      again.config.std = config.std;
      CHECK(look_at(again, picture(12)).logits == logits_of(f.file("run")));
    }
  }
}

TEST_CASE("import: errors name the file and the tensors") {
  TemporaryFolder f;
  const Config config = tiny_config();
  const TensorFile good = exported(f, config);
  const auto import = [&](const std::map<std::string, Tensor>& tensors, Config options) {
    save_safetensors(f.file("bad.safetensors"), tensors);
    const std::string text =
        message_of([&] { import_weights(f.file("bad.safetensors"), f.file("bad"), options); });
    CHECK(text.find("bad.safetensors") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(f.file("bad")));
    return text;
  };
  const auto contains = [](const std::string& text, const std::string& what) {
    CAPTURE(text);
    CHECK(text.find(what) != std::string::npos);
  };
  auto tensors = good.tensors;
  tensors.erase("norm.bias");
  tensors.erase("head.weight");
  contains(import(tensors, options_for(config)), "head.weight");
  tensors["head.weight"] = good.tensors.at("head.weight");
  tensors["dist_token"] = zeros({1, 1, 12});
  tensors["blocks.1.attn.proj.bias"] = zeros({13});
  const std::string text = import(tensors, options_for(config));
  contains(text, "norm.bias");
  contains(text, "dist_token");
  contains(text, "blocks.1.attn.proj.bias [13]");

  tensors = good.tensors;
  tensors["pos_embed"] = zeros({1, 12, 12});
  contains(import(tensors, options_for(config)), "pos_embed");
  tensors = good.tensors;
  tensors["module.norm.bias"] = tensors["norm.bias"];
  contains(import(tensors, options_for(config)), "norm.bias");
  tensors = good.tensors;
  tensors["blocks.99999999999999999999.norm1.bias"] = tensors["norm.bias"];
  contains(import(tensors, options_for(config)), "block");
  Config symmetric = options_for(config);
  symmetric.attention = "symmetric";
  contains(import(good.tensors, symmetric), "blocks.0.attn.qkv.weight");
  contains(import({}, options_for(config)), "pos_embed");
  Config heads = options_for(config);
  heads.heads = 5;
  save_safetensors(f.file("bad.safetensors"), good.tensors);
  contains(message_of([&] { import_weights(f.file("bad.safetensors"), f.file("bad"), heads); }), "--heads");
  contains(message_of([&] { import_weights(f.file("model.safetensors"), f.file("run"), Config{}); }), "run");
}

TEST_CASE("attention map: mean over heads without the class token, over the picture") {
  TemporaryFolder f;
  const Config config = tiny_config();
  make_run(f.file("run"), config);
  const LoadedModel loaded = apps::load_model<Config>(f.file("run"));
  const Prediction p = look_at(loaded, picture(12), 0);
  REQUIRE(p.attention.size() == 9);
  CHECK(p.grid == 3);
  double sum = 0, probabilities = 0;
  for (float a : p.attention) {
    CHECK(a > 0);
    sum += a;
  }
  for (float v : p.probabilities) probabilities += v;
  CHECK(sum < 1);  // the class token's own entry is missing
  CHECK(sum > 0.2);
  CHECK(probabilities == doctest::Approx(1).epsilon(1e-5));
  for (size_t i = 1; i < p.ranking.size(); ++i)
    CHECK(p.logits[size_t(p.ranking[i - 1])] >= p.logits[size_t(p.ranking[i])]);
  CHECK(look_at(loaded, picture(12), -2).attention == p.attention);
  CHECK(look_at(loaded, picture(12), 1).attention != p.attention);

  const data::Image pair = apps::attention_pair(p.view, p.attention, p.grid);
  CHECK(pair.height == 228);  // 19 pixels each
  CHECK(pair.width == 2 * 228 + 8);
  CHECK(pair.channels == 3);
  for (int c = 0; c < 3; ++c) CHECK(pair.at(20, 40)[c] == p.view.at(1, 2)[c]);
  const data::Image overlay = apps::attention_overlay(p.view, p.attention, p.grid);
  for (int c = 0; c < 3; ++c) CHECK(pair.at(228 + 8 + 100, 50)[c] == overlay.at(100, 50)[c]);
}

TEST_CASE("attention map: grey models take colour pictures and the other way round") {
  TemporaryFolder f;
  Config config = tiny_config();
  config.channels = 1;
  config.mean = {0.5};
  config.std = {0.25};
  make_run(f.file("run"), config);
  const LoadedModel loaded = apps::load_model<Config>(f.file("run"));
  const Prediction colour = look_at(loaded, picture(12));
  CHECK(colour.view.channels == 1);
  CHECK(look_at(loaded, data::to_grey(picture(12))).logits == colour.logits);
  CHECK(apps::attention_pair(colour.view, colour.attention, colour.grid).channels == 3);
  CHECK(look_at(loaded, picture(50)).view.width == 12);
}

TEST_CASE("predict: a damaged picture is named, the others are still done") {
  TemporaryFolder f;
  make_run(f.file("run"), tiny_config());
  data::write_png(f.file("a.png"), picture(12));
  std::filesystem::create_directories(f.file("other"));
  data::write_png(f.file("other/a.png"), picture(30));
  std::ofstream(f.file("bad.png")) << "no picture";
  PredictOptions options;
  options.checkpoint = f.file("run");
  options.out = f.file("out");
  options.images = {f.file("bad.png"), f.file("a.png"), f.file("missing.jpg"), f.file("other")};
  int code = -1;
  const std::string text = stdout_of(f, [&] { code = predict(options); });
  CHECK(code == 1);
  CHECK(text.find("probability") != std::string::npos);
  CHECK(text.find("bad.png") == std::string::npos);
  CHECK(data::read_image(f.file("out/a-attention.png")).height == 228);
  CHECK(std::filesystem::exists(f.file("out/a-2-attention.png")));
  CHECK_FALSE(std::filesystem::exists(f.file("out/bad-attention.png")));
  options.images = {f.file("bad.png"), f.file("a.png")};
  options.json = true;
  options.top = 99;
  const auto json = nlohmann::json::parse(stdout_of(f, [&] { code = predict(options); }));
  CHECK(code == 1);
  CHECK(json.at(0).at("error").get<std::string>().find("bad.png") != std::string::npos);
  const Prediction p = look_at(apps::load_model<Config>(f.file("run")), picture(12));
  REQUIRE(json.at(1).at("predictions").size() == 5);
  for (size_t i = 0; i < 5; ++i) {
    const auto& entry = json[1]["predictions"][i];
    const auto c = entry.at("index").get<size_t>();
    CHECK(int(c) == p.ranking[i]);
    CHECK(entry.at("class") == tiny_config().classes[c]);
    CHECK(entry.at("logit").get<float>() == p.logits[c]);
    CHECK(entry.at("probability").get<float>() == p.probabilities[c]);
  }
  options.block = 2;
  CHECK(message_of([&] { predict(options); }).find("--block") != std::string::npos);
}

namespace {

void fabricate_results(const std::string& folder, double accuracy) {
  apps::MetricsWriter metrics(folder + "/metrics.jsonl");
  for (int step = 10; step <= 300; step += 10)
    metrics.write(step,
                  {{"epoch", step / 100}, {"loss", 2.0 / step}, {"lr", 1e-3}, {"images_per_second", 800}});
  metrics.write(300, {{"test_accuracy", accuracy}, {"test_loss", 0.7}, {"seconds", 65}});
  Results r;
  r.data = "synthetic test";
  r.step = 300;
  r.count = 10;
  r.scores.top1 = accuracy;
  r.scores.top5 = 1;
  r.scores.loss = 0.7;
  r.classes = tiny_config().classes;
  r.confusion.assign(25, 1);
  for (const char* name : {"fog", "gaussian_noise"})
    for (int severity : {1, 3, 5}) r.corrupted.push_back({name, severity, {accuracy - 0.1 * severity, 1}});
  apps::add_evaluation(folder, r);
  Results few = r;
  few.count = 5;
  few.options = "--limit 5";
  few.corrupted.clear();
  for (double budget : {1.0, 4.0})
    few.attacked.push_back({"pgd", "normalised", budget, "20 steps", accuracy / budget, 1, 0.3});
  few.attacked.push_back({"spsa", "normalised", 0.1, "40 steps", 0.4, 1, 0.5});
  apps::add_evaluation(folder, few);
}

void check_self_contained(const std::string& html) {
  CHECK(occurrences(html, "http:") == 0);
  CHECK(occurrences(html, "https:") == 0);
  CHECK(occurrences(html, "src=\"") == occurrences(html, "src=\"data:image/png;base64,"));
  CHECK(occurrences(html, "<link") == 0);
}

}  // namespace

TEST_CASE("report: sections for what the folder holds, nothing from outside") {
  TemporaryFolder f;
  Config config = tiny_config("rpc");
  config.classes.assign(
      {"a", "b", "c", "d", "e", "f", "g", "h", "i", "wéird & <b>"});  // the built-in data has ten
  make_run(f.file("run"), config);
  fabricate_results(f.file("run"), 0.8);
  apps::write_report<RunRecord>(f.file("run"));
  const std::string html = apps::read_file(f.file("run/report.html"));
  check_self_contained(html);
  for (const char* part : {"RPC-Attention (2 iterations, block 0)", "Test accuracy", "80.00%",
                           "Learning rate", "Confusion matrix", "Accuracy per corruption", "gaussian_noise",
                           "Accuracy under attack", "4/255", "spsa", "What the model looks at", "1:05",
                           "classify train", "--attention rpc", "classify eval --checkpoint", "--budgets 1,4",
                           "--limit 5", "Pictures of the test split", "w\xc3\xa9ird &amp; &lt;b&gt;"}) {
    CAPTURE(part);
    CHECK(html.find(part) != std::string::npos);
  }
  CHECK(html.find("<b>\"") == std::string::npos);
  CHECK(occurrences(html, "data:image/png") >= 12);
}

TEST_CASE("report: whatever is missing or damaged is said and left out") {
  TemporaryFolder f;
  std::filesystem::create_directories(f.file("empty"));
  apps::write_report<RunRecord>(f.file("empty"));
  const std::string empty = apps::read_file(f.file("empty/report.html"));
  CHECK(empty.find("There is no metrics.jsonl") != std::string::npos);
  CHECK(empty.find("holds no checkpoint.safetensors") != std::string::npos);
  CHECK(message_of([&] { apps::write_report<RunRecord>(f.file("nowhere")); }).find("nowhere") !=
        std::string::npos);

  Config config = tiny_config();
  config.data = f.file("moved");
  make_run(f.file("run"), config);
  std::ofstream(f.file("run/eval.json")) << "{\"corrupted\": ";
  apps::write_report<RunRecord>(f.file("run"));
  const std::string html = apps::read_file(f.file("run/report.html"));
  check_self_contained(html);
  CHECK(html.find("eval.json") != std::string::npos);
  CHECK(html.find("Left out") != std::string::npos);
  CHECK(html.find("moved") != std::string::npos);
}

TEST_CASE("report: runs side by side") {
  TemporaryFolder f;
  Config config = tiny_config();
  make_run(f.file("a"), config);
  config.attention = "rpc";
  config.kind_options["lambda"] = 2.5;
  make_run(f.file("b"), config);
  fabricate_results(f.file("a"), 0.8);
  fabricate_results(f.file("b"), 0.9);
  std::filesystem::create_directories(f.file("nothing"));
  apps::compare_runs<RunRecord>({f.file("a"), f.file("b")}, f.file("comparison.html"));
  const std::string html = apps::read_file(f.file("comparison.html"));
  check_self_contained(html);
  for (const char* part :
       {"Comparison of 2", "<b class=\"best\">90.00</b>", "80.00", "softmax attention", "RPC-Attention",
        "Accuracy per corruption", "Accuracy under PGD", "lambda", "2.5", "spsa"}) {
    CAPTURE(part);
    CHECK(html.find(part) != std::string::npos);
  }
  CHECK(message_of([&] {
          apps::compare_runs<RunRecord>({f.file("nothing")}, f.file("none.html"));
        }).find("nothing") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(f.file("none.html")));
}
