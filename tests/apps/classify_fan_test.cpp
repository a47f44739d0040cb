// FAN as a model of classify: options, import and export, shapes alone. That it computes what the published
// code does is checked by the goldens and by tools/fan_check.py.
#include <doctest/doctest.h>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "data/image.h"
#include "engine/core/shapes_only.h"
#include "engine/files/safetensors.h"
#include "tests/apps/drawn_state.h"
#include "tests/apps/random_run.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::classify;

namespace {

Config tiny(const std::string& attention = "softmax") {
  Config c;
  c.model = Architecture::fan_tiny;
  c.attention = attention;
  c.dim = 16;
  c.depth = 2;
  c.heads = 2;
  c.patch = 4;
  c.image_size = 32;
  c.channels = 3;
  c.classes = {"cat", "dog", "ship"};
  c.mean = c.std = {0.5, 0.4, 0.3};
  c.crop = Crop::padded;
  c.batch_size = c.eval_batch_size = 3;
  c.label_smoothing = 0;
  c.device = "cpu";
  return c;
}

std::string refusal(const std::function<void(Config&)>& change) {
  Config c = tiny();
  change(c);
  return message_of([&] { validate(c); });
}

}  // namespace

TEST_CASE("fan: options that do not fit are refused by name") {
  CHECK_NOTHROW(validate(tiny("rpc")));
  CHECK(refusal([](Config& c) { c.width = 16; }) ==
        "[classify] --width does not apply to --model fan-tiny; leave it out");
  CHECK(refusal([](Config& c) { c.patch = 2; }).find("4, 8 or 16") != std::string::npos);
  CHECK(refusal([](Config& c) { c.dim = 12; }).find("a multiple of 8") != std::string::npos);
}

TEST_CASE("fan: titles and names of runs") {
  Config c = tiny("rpc");
  c.kind_options["iterations"] = 4;
  CHECK(model_title(c) == "FAN with RPC-Attention (4 iterations, block 0)");
  CHECK(run_word(c) == "fan-tiny-rpc");
  CHECK(describe_model(c) == "FAN with rpc attention, width 16, 2 blocks, 2 heads, patch 4");
}

TEST_CASE("fan: import finds model, sizes and heads, and refuses others in one line") {
  for (const std::string attention : {"softmax", "symmetric"}) {
    TemporaryFolder f;
    Config config = tiny(attention);
    config.mlp_ratio = 3;
    const std::map<std::string, Tensor> tensors = drawn_state(config);
    save_safetensors(f.file("model.safetensors"), tensors);
    Config options;
    options.attention = attention;
    options.heads = 0;  // as the command sets it
    REQUIRE(import_weights(f.file("model.safetensors"), f.file("run"), options) == 0);
    const LoadedModel loaded = apps::load_model<Config>(f.file("run"), {.device = "cpu"});
    CHECK(loaded.config.model == Architecture::fan_tiny);
    CHECK(loaded.config.dim == 16);
    CHECK(loaded.config.depth == 2);
    CHECK(loaded.config.heads == 2);
    CHECK(loaded.config.patch == 4);
    CHECK(loaded.config.mlp_ratio == 3);
    CHECK(loaded.config.image_size == 32);
    for (const nn::NamedTensor& t : loaded.model->state())
      CHECK_MESSAGE(t.tensor->to_vector() == tensors.at(t.name).to_vector(), t.name);
    const Prediction p = look_at(loaded, data::Image(20, 30, 3));
    CHECK(p.logits.size() == 3);
    CHECK(p.attention.size() == 64);

    const auto refused = [&](const std::map<std::string, Tensor>& changed, const Config& with,
                             const std::vector<std::string>& given = {}) {
      save_safetensors(f.file("bad.safetensors"), changed);
      return message_of([&] { import_weights(f.file("bad.safetensors"), f.file("bad"), with, given); });
    };
    auto changed = tensors;
    changed.erase("head.weight");
    CHECK(refused(changed, options).find("missing is head.weight") != std::string::npos);
    changed = tensors;
    changed.erase("blocks.1.mlp.q.weight");
    CHECK(refused(changed, options).find("blocks.1.mlp.q.weight") != std::string::npos);
    Config other = options;
    other.attention = attention == "softmax" ? "symmetric" : "softmax";
    CHECK(refused(tensors, other).find("give another --attention") != std::string::npos);
    other = options;
    other.heads = 4;
    CHECK(refused(tensors, other).find("--heads is 4, but the weights have 2") != std::string::npos);
    CHECK(refused(tensors, options, {"model"}).find("not vit") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(f.file("bad")));
  }
}

TEST_CASE("fan: a config that asks for other sizes than the weights have is refused by its field") {
  const Config good = tiny();
  const TensorFile file{.tensors = drawn_state(good), .metadata = {}};
  CHECK_NOTHROW(apps::check_sizes(model_sizes(good), file));
  const auto refused = [&](const std::string& field, const std::function<void(Config&)>& change) {
    Config c = good;
    change(c);
    const std::string said = message_of([&] { apps::check_sizes(model_sizes(c), file); });
    CHECK_MESSAGE(said.find("'" + field + "' asks for") != std::string::npos, said);
  };
  refused("dim", [](Config& c) { c.dim = 32; });
  refused("channels", [](Config& c) { c.channels = 1; });
  refused("patch", [](Config& c) { c.patch = 8; });
  refused("depth", [](Config& c) { c.depth = 100; });
  refused("heads", [](Config& c) { c.heads = 4; });
  refused("mlp-ratio", [](Config& c) { c.mlp_ratio = 2; });
  refused("classes", [](Config& c) { c.classes.push_back("frog"); });
}

TEST_CASE("fan: a step and an evaluation run on shapes alone") {
  const ShapesOnly only;
  for (const char* attention : {"softmax", "rpc"}) CHECK_NOTHROW(train_on_shapes(tiny(attention)));
}
