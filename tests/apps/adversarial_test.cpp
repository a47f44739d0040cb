#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "apps/classify/pipeline.h"
#include "engine/ops.h"
#include "nn/init.h"
#include "tests/differences.h"
#include "tests/message_of.h"

using namespace pursuit;
using namespace pursuit::classify;

namespace {

Config attacked() {
  Config c;
  c.attention = "softmax";
  c.image_size = 8;
  c.patch = 4;
  c.channels = 1;
  c.dim = 16;
  c.depth = c.heads = 2;
  c.batch_size = 3;
  c.classes = {"a", "b", "c"};
  c.mean = {0.4};
  c.std = {0.2};
  c.mixup = c.cutmix = c.label_smoothing = 0;
  c.device = "cpu";
  c.adversarial = Adversarial::pgd;
  c.adversarial_budget = 10;
  return c;
}

}  // namespace

TEST_CASE("adversarial training: a batch stays within the budget and costs more") {
  Config c = attacked();
  Model model(model_config(c));
  nn::initialise(model, nn::Init::pytorch, 0);
  model.set_training(true);
  model.set_step(0, 0);
  StepInput input(c, cpu);
  std::vector<uint8_t> pixels(3 * 64);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = uint8_t(37 * i % 256);
  input.images.send(pixels.data());
  const std::vector<int64_t> labels = {0, 1, 2};
  input.targets.send(labels.data());
  attack_batch(model, c, input, 0);
  CHECK(model.training());

  const std::vector<double> changed = (input.adversarial * 0.2 + 0.4).to_vector();
  REQUIRE(changed.size() == pixels.size());
  double most = 0;
  for (size_t i = 0; i < pixels.size(); ++i) {
    CHECK(changed[i] >= -1e-6);
    CHECK(changed[i] <= 1 + 1e-6);
    most = larger(most, std::abs(changed[i] - pixels[i] / 255.0));
  }
  CHECK(most == doctest::Approx(10 / 255.0).epsilon(1e-4));

  const std::vector<double> before = input.adversarial.to_vector();
  const double attacked_loss = loss(model, c, input).minimised.item();
  const Tensor kept = std::exchange(input.adversarial, Tensor());
  CHECK(attacked_loss > loss(model, c, input).minimised.item());
  input.adversarial = kept;
  for (const nn::NamedTensor& p : model.parameters()) CHECK_FALSE(p.tensor->grad().defined());

  // Other pictures start elsewhere in the ball.
  attack_batch(model, c, input, 3);
  CHECK(input.adversarial.to_vector() != before);

  c.mixup = 0.8;
  CHECK(message_of([&] { validate(c); }).find("--mixup 0") != std::string::npos);
}
