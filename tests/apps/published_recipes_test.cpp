#include <doctest/doctest.h>

#include <map>
#include <set>

#include "apps/classify/config.h"
#include "apps/lm/config.h"
#include "apps/run/fields.h"
#include "apps/segment/config.h"
#include "data/text/vocabulary.h"
#include "engine/core/shapes_only.h"
#include "tests/apps/config_of_recipe.h"

// Compares the recipes with the published settings, field by field. The values are from the papers and their
// code: RPC-Attention's (Teo & Nguyen 2024), DeiT's, Segmenter's, the language model of Schlag et al.
// 2021 (IDSIA/lmtool-fwp) and LOCATER's (Bao, Hataya & Karakida 2024 on fairseq).
using namespace pursuit;
using Json = nlohmann::ordered_json;

namespace {

Json joined(std::initializer_list<Json> parts) {
  Json all = Json::object();
  for (const Json& part : parts) all.update(part);
  return all;
}

// The recipe must have every published value, and its file no other.
template <class Config>
void check_recipe(const std::string& app, const std::string& name, const Json& published) {
  CAPTURE(name);
  const Json config = apps::options_to_json(config_of_recipe<Config>(app, name));
  for (const auto& [key, value] : published.items()) {
    const std::string& field = key;
    CAPTURE(field);
    REQUIRE(config.contains(field));
    CHECK(config[field] == value);
  }
  for (const auto& [option, value] : apps::read_recipe(app, name).settings) {
    const std::string& setting = option;
    CAPTURE(setting);
    CHECK(published.contains(setting));
  }
}

template <class Config> void check_recipes(const std::string& app, const std::string& data,
                                           const std::map<std::string, Json>& published,
                                           const std::set<std::string>& our_own) {
  for (const std::string& name : apps::recipe_names(app)) {
    CAPTURE(name);
    CHECK(published.contains(name) + our_own.contains(name) == 1);
  }
  for (const auto& [name, fields] : published) {
    check_recipe<Config>(app, name, fields);
    CHECK(apps::read_recipe(app, name).requires_data == (name == "locater" ? "WikiText-2" : data));
  }
}

// The settings of the published code: tau = lambda mu, with mu from the model's width.
Json rpc(int iterations, double lambda) {
  return {{"attention", "rpc"},     {"iterations", iterations},      {"lambda", lambda},
          {"threshold", "product"}, {"mu-width", "model"},           {"dual-sign", "minus"},
          {"detach-mu", false},     {"shrink-every-iteration", true}};
}
Json rpc_of(int iterations, double lambda, int layer) {
  return joined({rpc(iterations, lambda), {{"layers", layer < 0 ? "all" : std::to_string(layer)}}});
}
Json kind(const std::string& attention) { return {{"attention", attention}}; }
Json size(int dim, int heads) {
  return {{"dim", dim}, {"depth", 12}, {"heads", heads}, {"mlp-ratio", 4}, {"patch", 16}};
}

const Json tiny = size(192, 3), small = size(384, 6), base = size(768, 12);

}  // namespace

TEST_CASE("published recipes: classify's are DeiT's and FAN's setting with the paper's attention") {
  const Json deit = {{"image-size", 224},
                     {"ln-eps", 1e-6},
                     {"init", "timm"},
                     {"dropout", 0},
                     {"drop-path", 0.1},
                     {"epochs", 300},
                     {"steps", 0},
                     {"batch-size", 1024},
                     {"optimizer", "adamw"},
                     {"lr", 5e-4 * 1024 / 512},
                     {"schedule", "cosine"},
                     {"min-lr", 1e-5},
                     {"warmup-epochs", 5},
                     {"warmup-lr", 1e-6},
                     {"lr-step", "epoch"},
                     {"weight-decay", 0.05},
                     {"clip-norm", 0},
                     {"ema", 0.99996},
                     {"eval-weights", "raw"},
                     {"crop", "resized"},
                     {"flip", 0.5},
                     {"rand-augment", true},
                     {"colour-jitter", 0},
                     {"random-erasing", 0.25},
                     {"mixup", 0.8},
                     {"cutmix", 1},
                     {"label-smoothing", 0.1},
                     {"repeats", 3},
                     {"seed", 0}};
  Json fan = joined({deit, size(192, 4)});
  fan.update(Json{{"model", "fan-tiny"},
                  {"drop-path", 0},
                  {"batch-size", 512},
                  {"lr", 2e-3},
                  {"min-lr", 1e-6},
                  {"lr-step", "batch"},
                  {"ema", 0.99992},
                  {"eval-weights", "ema"},
                  {"repeats", 1},
                  {"seed", 42}});
  const Json clipped = {{"clip-norm", 1}};  // of base alone, as its published script has it
  check_recipes<classify::Config>(
      "classify", "ImageNet-1K",
      {{"deit-tiny", joined({deit, tiny, kind("softmax")})},
       {"symvit-tiny", joined({deit, tiny, kind("symmetric")})},
       {"symvit-small", joined({deit, small, kind("symmetric")})},
       {"symvit-base", joined({deit, base, kind("symmetric"), clipped})},
       {"rpc-symvit-tiny-4iter", joined({deit, tiny, rpc_of(4, 4, 0)})},
       {"rpc-symvit-tiny-5iter", joined({deit, tiny, rpc_of(5, 4, 0)})},
       {"rpc-symvit-tiny-6iter", joined({deit, tiny, rpc_of(6, 4, 0)})},
       {"rpc-symvit-tiny-2iter-all", joined({deit, tiny, rpc_of(2, 3, -1)})},
       {"rpc-asymmetric-tiny-4iter", joined({deit, tiny, rpc_of(4, 4, 0), kind("rpc-asymmetric")})},
       {"rpc-sym-asym-tiny-4iter", joined({deit, tiny, rpc_of(4, 4, 0), {{"other-attention", "softmax"}}})},
       {"rpc-symvit-small", joined({deit, small, rpc_of(4, 4, 0)})},
       {"rpc-symvit-base", joined({deit, base, rpc_of(2, 3, -1), clipped})},
       {"scaled-attention-s", joined({deit, tiny, kind("scaled-s")})},
       {"scaled-attention-alpha", joined({deit, tiny, kind("scaled-alpha")})},
       {"fan-tiny", joined({fan, kind("softmax")})},
       {"sym-fan-tiny", joined({fan, kind("symmetric")})},
       {"rpc-fan-tiny", joined({fan, rpc_of(4, 4, 0)})}},
      {"nano", "nano-synthetic", "nano-cifar10", "nano-imagenet", "resnet18"});
}

TEST_CASE("published recipes: classify's models have as many parameters as is published") {
  const auto count = [](const std::string& recipe) {
    classify::Config config = config_of_recipe<classify::Config>("classify", recipe);
    config.channels = 3;
    config.classes.resize(1000);
    const ShapesOnly no_memory;
    return classify::Model(model_config(config)).parameter_count();
  };
  for (const char* recipe : {"deit-tiny", "rpc-asymmetric-tiny-4iter"}) CHECK(count(recipe) == 5'717'416);
  CHECK(count("rpc-sym-asym-tiny-4iter") == 5'717'416 - 192 * 193);  // one block without queries
  for (const char* recipe : {"symvit-tiny", "rpc-symvit-tiny-6iter", "rpc-symvit-tiny-2iter-all"})
    CHECK(count(recipe) == 5'272'744);
  for (const char* recipe : {"symvit-small", "rpc-symvit-small"}) CHECK(count(recipe) == 20'276'584);
  for (const char* recipe : {"symvit-base", "rpc-symvit-base"}) CHECK(count(recipe) == 79'480'552);
  CHECK(count("scaled-attention-s") == 5'717'416 + 12 * 3 * 197 * 197);
  CHECK(count("scaled-attention-alpha") == 5'717'416 + 12);
  CHECK(count("fan-tiny") == 7'319'920);
  for (const char* recipe : {"sym-fan-tiny", "rpc-fan-tiny"}) CHECK(count(recipe) == 6'801'136);
}

TEST_CASE("published recipes: segment's are Segmenter's setting on ADE20K") {
  const Json segmenter = {{"height", 512},
                          {"width", 512},
                          {"short-side", 512},
                          {"long-side", 2048},
                          {"ln-eps", 1e-5},
                          {"init", "timm"},
                          {"dropout", 0},
                          {"drop-path", 0.1},
                          {"decoder", "mask"},
                          {"decoder-depth", 2},
                          {"decoder-dropout", 0.1},
                          {"decoder-attention-dropout", 0.1},
                          {"decoder-activation-dropout", 0.1},
                          {"ratio-min", 0.5},
                          {"ratio-max", 2},
                          {"max-class-share", 0.75},
                          {"flip", 0.5},
                          {"photometric", true},
                          {"epochs", 64},
                          {"steps", 0},
                          {"batch-size", 8},
                          {"eval-batch-size", 8},
                          {"optimizer", "sgd"},
                          {"schedule", "polynomial"},
                          {"lr", 1e-3},
                          {"min-lr", 1e-5},
                          {"warmup-epochs", 0},
                          {"lr-step", "batch"},
                          {"weight-decay", 0},
                          {"clip-norm", 0},
                          {"ema", 0},
                          {"eval-every", 4},
                          {"stride", 0},
                          {"scales", {1.0}},
                          {"eval-flip", false},
                          {"seed", 0}};
  const Json six = joined({rpc_of(6, 4, 0), {{"iterate-decoder", true}}});
  check_recipes<segment::Config>("segment", "ADE20K",
                                 {{"segmenter-tiny", joined({segmenter, tiny, kind("softmax")})},
                                  {"segmenter-small", joined({segmenter, small, kind("softmax")})},
                                  {"segmenter-base", joined({segmenter, base, kind("softmax")})},
                                  {"sym-segmenter-tiny", joined({segmenter, tiny, kind("symmetric")})},
                                  {"sym-segmenter-small", joined({segmenter, small, kind("symmetric")})},
                                  {"sym-segmenter-base", joined({segmenter, base, kind("symmetric")})},
                                  {"rpc-segmenter-tiny", joined({segmenter, tiny, six})},
                                  {"rpc-segmenter-small", joined({segmenter, small, six})},
                                  {"rpc-segmenter-base", joined({segmenter, base, six})}},
                                 {"nano", "nano-camvid"});
}

TEST_CASE("published recipes: lm's are the models of WikiText-103 and of LOCATER") {
  const Json paper = {{"dim", 128},
                      {"depth", 16},
                      {"heads", 8},
                      {"hidden", 2048},
                      {"context", 256},
                      {"norm", "post"},
                      {"activation", "relu"},
                      {"positions", "reversed"},
                      {"init", "transformer-xl"},
                      {"attention-bias", false},
                      {"scale-embedding", true},
                      {"tied", true},
                      {"output-bias", true},
                      {"cutoffs", {20000, 40000, 200000}},
                      {"dropout", 0.1},
                      {"activation-dropout", 0.1},
                      {"output-dropout", 0.1},
                      {"level", "word"},
                      {"vocabulary-limit", 0},
                      {"min-count", 1},
                      {"rows", "blocks"},
                      {"shuffle", false},
                      {"batch-size", 96},
                      {"eval-batch-size", 10},
                      {"steps", 500'000},
                      {"epochs", 120},  // 500,000 steps are a few less
                      {"optimizer", "adamw"},
                      {"schedule", "cosine"},
                      {"lr", 2.5e-4},
                      {"min-lr", 0},
                      {"warmup-lr", 0},
                      {"warmup-epochs", 0.476077},
                      {"lr-step", "batch"},
                      {"weight-decay", 0},
                      {"clip-norm", 0.25},
                      {"ema", 0},
                      {"seed", 1111},
                      {"eval-every", 0.952154},
                      {"keep-best", true}};
  const Json four = joined({rpc(4, 4), {{"layers", "0-3"}, {"mu-scope", "prefix"}}});
  const Json locater = {{"dim", 128},
                        {"depth", 1},
                        {"heads", 1},
                        {"hidden", 128},
                        {"context", 64},
                        {"norm", "post"},
                        {"activation", "relu"},
                        {"positions", "fairseq"},
                        {"init", "fairseq"},
                        {"attention-bias", true},
                        {"scale-embedding", true},
                        {"tied", false},
                        {"output-bias", false},
                        {"dropout", 0.1},
                        {"activation-dropout", 0},
                        {"output-dropout", 0},
                        {"rows", "blocks"},
                        {"shuffle", true},
                        {"batch-size", 64},
                        {"eval-batch-size", 64},
                        {"epochs", 50},
                        {"schedule", "constant"},
                        {"lr", 2.5e-5},
                        {"warmup-epochs", 0},
                        {"weight-decay", 0.01},
                        {"decay", "all"},
                        {"clip-norm", 0},
                        {"locater", 0.01},
                        {"locater-form", "anchor"},
                        {"locater-trace", 10},
                        {"locater-beta", 1}};
  check_recipes<lm::Config>("lm", "WikiText-103",
                            {{"published-softmax", joined({paper, kind("softmax")})},
                             {"published-symmetric", joined({paper, kind("symmetric")})},
                             {"published-rpc", joined({paper, four})},
                             {"locater", joined({locater, kind("softmax")})}},
                            {"nano", "nano-wikitext2", "nano-locater", "modern"});
}

TEST_CASE(
    "published recipes: the language model has a bias for every word of WikiText-103 and every cluster") {
  std::string words = "<eos>\n<unk>\n";
  for (int i = 2; i < 267'735; ++i) words += "w" + std::to_string(i) + "\n";
  const auto model_of = [&](const std::string& recipe, bool output_bias) {
    lm::Config config = config_of_recipe<lm::Config>("lm", recipe);
    config.vocabulary = words;
    config.output_bias = config.output_bias && output_bias;
    return model_config(config);
  };
  const ShapesOnly no_memory;
  const nn::TransformerLm model(model_of("published-softmax", true));
  CHECK(model.parameter_count() == 43'750'656 + 267'735 + 3);
  std::map<std::string, Shape> shapes;
  for (const nn::NamedTensor& p : model.parameters()) shapes[p.name] = p.tensor->shape();
  CHECK(shapes.at("output.bias") == Shape{267'735});
  CHECK(shapes.at("output.head.cluster.bias") == Shape{3});
  CHECK(shapes.at("output.head.cluster.weight") == Shape{3, 128});
  // Configs of runs trained before output biases existed do not have the field.
  CHECK(nn::TransformerLm(model_of("published-softmax", false)).parameter_count() == 43'750'656);
  CHECK(!apps::fields_from_json<lm::Config>(Json::object(), "config.json").output_bias);
}

TEST_CASE("published recipes: the language model's 2,000 steps of warm-up and 4,000 between evaluations") {
  // WikiText-103's 103,227,021 training tokens.
  const int64_t rows = (103'227'021 + 255) / 256, steps = (rows + 95) / 96;
  CHECK(steps == 4201);
  const lm::Config config = config_of_recipe<lm::Config>("lm", "published-rpc");
  CHECK(config.warmup_epochs * double(steps) == doctest::Approx(2000).epsilon(1e-5));
  CHECK(config.eval_every * double(steps) == doctest::Approx(4000).epsilon(1e-6));
  CHECK(config.epochs * steps >= 500'000);
  const nn::Schedule schedule = apps::schedule(config);
  CHECK(schedule.at(1000.0 / double(steps)) == doctest::Approx(1.25e-4).epsilon(1e-4));
}
