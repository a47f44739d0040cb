// ResNets as models of classify: options, import, running statistics, shapes alone. That they compute what
// torchvision's do is checked by the goldens, and against timm by tools/timm_check.py.
#include <doctest/doctest.h>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "data/image.h"
#include "engine/core/shapes_only.h"
#include "engine/files/safetensors.h"
#include "nn/frozen_parameters.h"
#include "tests/apps/drawn_state.h"
#include "tests/apps/random_run.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::classify;

namespace {

Config tiny(Architecture model = Architecture::resnet18) {
  Config c;
  c.model = model;
  c.width = 2;
  c.image_size = 12;
  c.channels = 3;
  c.classes = {"cat", "dog", "ship"};
  c.mean = c.std = {0.5, 0.4, 0.3};
  c.crop = Crop::padded;
  c.batch_size = c.eval_batch_size = 3;
  c.label_smoothing = 0;
  c.device = "cpu";
  return c;
}

void fill(StepInput& input, const Config& c) {
  std::vector<uint8_t> pixels(size_t(c.batch_size * c.channels * c.image_size * c.image_size));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = uint8_t(37 * i % 256);
  input.images.send(pixels.data());
  const std::vector<int64_t> labels = {0, 1, 2};
  input.targets.send(labels.data());
}

std::string refusal(const std::function<void(Config&)>& change) {
  Config c = tiny();
  change(c);
  return message_of([&] { validate(c); });
}

}  // namespace

TEST_CASE("resnet: options of the other architecture are refused by name") {
  CHECK_NOTHROW(validate(tiny()));
  CHECK(refusal([](Config& c) { c.attention = "rpc"; }) ==
        "[classify] --attention does not apply to --model resnet18; leave it out");
  CHECK(refusal([](Config& c) { c.patch = 4; }).find("--patch") != std::string::npos);
  CHECK(refusal([](Config& c) { c.kind_options["iterations"] = 3; }).find("--iterations") !=
        std::string::npos);
  CHECK(refusal([](Config& c) { c.inspect_every = 1; }).find("--inspect-every") != std::string::npos);
  CHECK(refusal([](Config& c) {
          c = Config();
          c.width = 16;
        }) == "[classify] --width does not apply to --model vit; leave it out");
}

TEST_CASE("resnet: parameters of timm's models; the stem follows the pictures") {
  Config c = tiny();
  c.width = 64;
  c.image_size = 224;
  c.classes.resize(1000);
  const ShapesOnly no_memory;
  CHECK(Model(model_config(c)).parameter_count() == 11'689'512);
  c.model = Architecture::resnet50;
  CHECK(Model(model_config(c)).parameter_count() == 25'557'032);
  c.image_size = 64;
  CHECK(Model(model_config(c)).parameter_count() == 25'557'032 - 64 * 3 * (49 - 9));
}

TEST_CASE("resnet: import finds model, width, stem and statistics, and refuses others in one line") {
  for (const Architecture architecture : {Architecture::resnet18, Architecture::resnet50}) {
    TemporaryFolder f;
    const Config config = tiny(architecture);
    const std::map<std::string, Tensor> tensors = drawn_state(config);
    save_safetensors(f.file("model.safetensors"), tensors);
    Config options;
    options.heads = 0;  // as the command sets it
    REQUIRE(import_weights(f.file("model.safetensors"), f.file("run"), options) == 0);
    const LoadedModel loaded = apps::load_model<Config>(f.file("run"), {.device = "cpu"});
    CHECK(loaded.config.model == architecture);
    CHECK(loaded.config.width == 2);
    CHECK(loaded.config.stem == Stem::small);
    CHECK(loaded.config.image_size == 32);
    for (const nn::NamedTensor& t : loaded.model->state())
      CHECK_MESSAGE(t.tensor->to_vector() == tensors.at(t.name).to_vector(), t.name);
    const Prediction p = look_at(loaded, data::Image(20, 30, 3));
    CHECK(p.logits.size() == 3);
    CHECK(p.attention.empty());

    const auto refused = [&](std::map<std::string, Tensor> changed,
                             const std::vector<std::string>& given = {}) {
      save_safetensors(f.file("bad.safetensors"), changed);
      return message_of([&] { import_weights(f.file("bad.safetensors"), f.file("bad"), options, given); });
    };
    auto changed = tensors;
    changed.erase("fc.weight");
    CHECK(refused(changed).find("missing is fc.weight") != std::string::npos);
    changed = tensors;
    changed["layer3.9.conv1.weight"] = changed["layer3.6.conv1.weight"] = changed["layer3.2.conv1.weight"] =
        zeros({1});
    CHECK(refused(changed).find("layer3 has not the") != std::string::npos);
    CHECK(refused(tensors, {"model"}).find("not vit") != std::string::npos);
    changed = {{"head_dist.weight", zeros({3, 8})}};
    CHECK(refused(changed).find("distilled") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(f.file("bad")));
  }
}

TEST_CASE("resnet: training updates the running statistics, attacks and evaluation do not") {
  Config c = tiny();
  c.adversarial = Adversarial::pgd;
  c.adversarial_steps = 2;
  Model model(model_config(c));
  nn::initialise(model, nn::Init::pytorch, 0);
  model.set_step(0, 0);
  StepInput input(c, cpu);
  fill(input, c);
  const auto statistics = [&] {
    std::vector<double> all;
    for (const nn::NamedTensor& b : model.buffers()) {
      const std::vector<double> values = b.tensor->to_vector();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  const std::vector<double> before = statistics();
  REQUIRE_FALSE(before.empty());
  model.set_training(true);
  attack_batch(model, c, input, 0);
  CHECK(statistics() == before);
  loss(model, c, input);
  const std::vector<double> after = statistics();
  CHECK(after != before);
  model.set_training(false);
  loss(model, c, input);
  CHECK(statistics() == after);
}

TEST_CASE("resnet: a step and an evaluation run on shapes alone") {
  const ShapesOnly only;
  for (const Architecture architecture : {Architecture::resnet18, Architecture::resnet50})
    CHECK_NOTHROW(train_on_shapes(tiny(architecture)));
}
