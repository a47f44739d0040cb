#include "nn/interactive_segmenter.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "engine/base/random.h"
#include "engine/ops.h"
#include "nn/focal_loss.h"
#include "nn/init.h"
#include "tests/differences.h"
#include "tests/message_of.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

constexpr int64_t side = 16, grid = side / 2, tokens = grid * grid;

nn::InteractiveSegmenterConfig small(nn::UnitPrior prior = nn::UnitPrior::uniform) {
  return {.halvings = 1, .dim = 6, .depth = 3, .key_dim = 4, .place_unit = 8, .prior = prior};
}

Tensor pictures(int64_t count) {
  Random random(7, 0);
  std::vector<float> pixels(size_t(count * 3 * side * side));
  for (float& x : pixels) x = float(random.normal());
  return from_vector(pixels, {count, 3, side, side});
}

// One list of (token, value) a picture, in tensors `most` wide.
nn::TokenClicks clicks_of(const std::vector<std::vector<std::pair<int64_t, float>>>& lists, int64_t most) {
  const int64_t count = int64_t(lists.size());
  std::vector<int64_t> at(size_t(count * most));
  std::vector<float> values(size_t(count * most)), clicked(size_t(count * tokens));
  for (size_t i = 0; i < lists.size(); ++i)
    for (size_t k = 0; k < lists[i].size(); ++k) {
      const auto [token, value] = lists[i][k];
      at[i * size_t(most) + k] = token;
      values[i * size_t(most) + k] = value;
      clicked[i * size_t(tokens) + size_t(token)] = value;
    }
  return {from_vector(at, {count, most}), from_vector(values, {count, most}),
          from_vector(clicked, {count, tokens})};
}

// The model's answer from its units and queries, number by number: the posterior (1) of probabilistic.h, the
// update of values by clicks, expected values, clamping, scale and bias as they are at the start of training.
std::vector<double> by_hand(const nn::InteractiveSegmenter::Looked& looked, const nn::ClickAnswers& answers,
                            const std::vector<std::pair<int64_t, float>>& clicks) {
  const std::vector<double> keys = looked.units.keys.to_vector(), q = looked.queries.to_vector(),
                            mu = looked.units.values.to_vector();
  const double alpha = looked.units.alpha.item();
  const std::vector<double> prior =
      looked.units.log_prior.defined() ? looked.units.log_prior.to_vector() : std::vector<double>(tokens);
  const size_t n = size_t(tokens), width = size_t(looked.queries.size(3));
  const auto posterior = [&](size_t i) {
    std::vector<double> w(n);
    double sum = 0;
    for (size_t j = 0; j < n; ++j) {
      double squared = 0;
      for (size_t d = 0; d < width; ++d) {
        const double difference = q[i * width + d] - keys[j * width + d];
        squared += difference * difference;
      }
      sum += w[j] = std::exp(prior[j] - alpha / 2 * squared);
    }
    for (double& x : w) x /= sum;
    return w;
  };
  std::vector<double> values = mu;
  if (answers.propagate)
    for (size_t j = 0; j < n; ++j) {
      const double beta = double(n) / 5;
      double sum = 0, mass = 0;
      for (const auto& [token, value] : clicks) {
        const double w = posterior(size_t(token))[j];
        sum += w * double(value);
        mass += w;
      }
      values[j] = (mu[j] + beta * sum) / (1 + beta * mass);
    }
  std::vector<double> logits(n);
  for (size_t i = 0; i < n; ++i) {
    const std::vector<double> w = posterior(i);
    double output = 0;
    for (size_t j = 0; j < n; ++j) output += w[j] * values[j];
    for (const auto& [token, value] : clicks)
      if (answers.clamp && size_t(token) == i) output = double(value);
    logits[i] = 5 * output;
  }
  return logits;
}

void check_close(const Tensor& found, const std::vector<double>& expected, double tolerance) {
  CHECK(largest_difference(found.to_vector(), expected) <= tolerance);
}

}  // namespace

TEST_CASE("interactive segmenter: answers are those of the formulas") {
  const std::vector<std::pair<int64_t, float>> clicks = {{3, 1.0f}, {40, -1.0f}, {41, 1.0f}};
  for (const nn::UnitPrior prior :
       {nn::UnitPrior::uniform, nn::UnitPrior::magnitude, nn::UnitPrior::learned}) {
    nn::InteractiveSegmenter model(small(prior));
    nn::initialise(model, nn::Init::pytorch, 1);
    if (prior == nn::UnitPrior::learned)
      for (const nn::NamedTensor& p : model.parameters())
        if (p.name == "prior.weight") *p.tensor = from_vector(std::vector<float>{0.5f, -1, 0.25f, 2}, {1, 4});
    const NoGrad off;
    const auto looked = model.look(pictures(1));
    CHECK(looked.queries.shape() == Shape{1, 1, tokens, 6});
    for (const bool propagate : {true, false})
      for (const bool clamp : {true, false}) {
        nn::ClickAnswers answers;
        answers.propagate = propagate;
        answers.clamp = clamp;
        model.set_answers(answers);
        const Tensor logits = model.answer(looked, clicks_of({clicks}, 3));
        CHECK(logits.shape() == Shape{1, 1, grid, grid});
        check_close(logits, by_hand(looked, answers, clicks), 2e-5);
      }
  }
}

TEST_CASE("interactive segmenter: a click counts in its own picture, rows that fill up do not") {
  nn::InteractiveSegmenter model(small());
  nn::initialise(model, nn::Init::pytorch, 2);
  const NoGrad off;
  const Tensor images = pictures(2);
  const auto both = model.look(images), second = model.look(images.slice(0, 1, 2));
  const Tensor together = model.answer(both, clicks_of({{{5, 1.0f}, {9, -1.0f}}, {{60, -1.0f}}}, 4));
  const Tensor alone = model.answer(second, clicks_of({{{60, -1.0f}}}, 1));
  check_close(together.slice(0, 1, 2), alone.to_vector(), 1e-5);
  const Tensor none = model.answer(second, clicks_of({{}}, 1));
  CHECK(largest_difference(alone, none) > 0.1);
}

TEST_CASE("interactive segmenter: adapted keys are those of EM, and none with no iterations") {
  const NoGrad off;
  nn::InteractiveSegmenter plain(small(nn::UnitPrior::magnitude));
  nn::initialise(plain, nn::Init::pytorch, 3);
  const auto before = plain.look(pictures(1));
  nn::ClickAnswers answers;
  answers.key_iterations = 2;
  answers.theta = 0.5;
  plain.set_answers(answers);
  const auto after = plain.look(pictures(1));
  nn::GaussianUnits expected = nn::adapt_keys(before.units, before.queries, {2, full({1}, 0.5, DType::f32)});
  CHECK(after.units.keys.to_vector() == expected.keys.to_vector());
  CHECK(after.units.keys.to_vector() != before.units.keys.to_vector());
  // The prior of the units stays that of the projected keys.
  CHECK(after.units.log_prior.to_vector() == before.units.log_prior.to_vector());
  plain.set_answers({});
  CHECK(plain.look(pictures(1)).units.keys.to_vector() == before.units.keys.to_vector());
}

TEST_CASE("interactive segmenter: every parameter learns from clicks") {
  nn::InteractiveSegmenterConfig config = small(nn::UnitPrior::learned);
  config.answers.key_iterations = 1;
  nn::InteractiveSegmenter model(config);
  nn::initialise(model, nn::Init::pytorch, 4);
  model.set_training(true);
  const Tensor logits = model(pictures(2), clicks_of({{{5, 1.0f}, {9, -1.0f}}, {{60, 1.0f}}}, 2));
  std::vector<int64_t> labels(size_t(2 * side * side));
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = i % 7 == 0 ? 255 : int64_t(i / 100 % 2);
  nn::normalised_focal_loss(upsample_bilinear(logits, side, side).reshape({2, side, side}),
                            from_vector(labels, {2, side, side}), 2, 255)
      .backward();
  int64_t looked_at = 0;
  for (const nn::NamedTensor& p : model.parameters()) {
    CAPTURE(p.name);
    REQUIRE(p.tensor->grad().defined());
    CHECK(largest_magnitude(p.tensor->grad()) > 0);
    ++looked_at;
  }
  CHECK(looked_at == int64_t(model.parameters().size()));
  CHECK(looked_at > 20);
}

GPU_TEST_CASE("interactive segmenter: a GPU gives the CPU's answers and gradients") {
  const auto clicks = clicks_of({{{5, 1.0f}, {9, -1.0f}}, {{60, 1.0f}}}, 3);
  std::vector<std::vector<double>> logits, gradients;
  for (const Device device : {cpu, cuda_device()}) {
    nn::InteractiveSegmenterConfig config = small(nn::UnitPrior::learned);
    config.answers.key_iterations = 1;
    nn::InteractiveSegmenter model(config);
    nn::initialise(model, nn::Init::pytorch, 6);
    model.to(device);
    model.set_training(true);
    const Tensor found =
        model(pictures(2).to(device),
              nn::TokenClicks{clicks.tokens.to(device), clicks.values.to(device), clicks.clicked.to(device)});
    const Tensor labels = full({2, grid, grid}, 1, DType::i64).to(device);
    nn::normalised_focal_loss(found.reshape({2, grid, grid}), labels, 2, 255).backward();
    logits.push_back(found.to(cpu).to_vector());
    gradients.emplace_back();
    for (const nn::NamedTensor& p : model.parameters())
      for (const double g : p.tensor->grad().to(cpu).to_vector()) gradients.back().push_back(g);
  }
  CHECK(logits[0].size() == size_t(2 * tokens));
  CHECK(largest_difference(logits[0], logits[1]) <= 1e-4);
  CHECK(gradients[0].size() > 1000);
  // Convolutions round differently, and batch norm divides by small deviations.
  CHECK(largest_difference(gradients[0], gradients[1]) <= 1e-3);
}

TEST_CASE("interactive segmenter: what does not fit is named") {
  nn::InteractiveSegmenter model(small());
  CHECK(message_of([&] { model.look(zeros({1, 3, 15, 16})); }).find("multiples of 2") != std::string::npos);
  const NoGrad off;
  const auto looked = model.look(pictures(1));
  CHECK(message_of([&] {
          model.answer(looked, clicks_of({{}, {}}, 1));
        }).find("got clicks") != std::string::npos);
  nn::InteractiveSegmenterConfig flat = small();
  flat.halvings = 0;
  CHECK(message_of([&] { nn::InteractiveSegmenter wrong(flat); }).find("1 to 6 halvings") !=
        std::string::npos);
}

TEST_CASE("normalised focal loss: values and gradients in f64 by hand") {
  const int64_t count = 2, height = 3, width = 4;
  Random random(5, 0);
  std::vector<float> logits;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count * height * width; ++i) {
    logits.push_back(float(3 * random.normal()));
    labels.push_back(i % 5 == 4 ? 255 : random.below(2));
  }
  const size_t pixels = size_t(height * width);
  for (const double gamma : {0.0, 0.5, 2.0}) {
    CAPTURE(gamma);
    const auto probability = [&](const std::vector<float>& x, size_t i) {
      return 1 / (1 + std::exp((labels[i] == 1 ? -1 : 1) * double(x[i])));
    };
    // The sum of weights of every picture at the logits themselves: it has no gradient.
    std::vector<double> totals(size_t(count), 0.0);
    for (size_t i = 0; i < logits.size(); ++i)
      if (labels[i] != 255) totals[i / pixels] += std::pow(1 - probability(logits, i), gamma);
    const auto loss = [&](const std::vector<float>& x) {
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i)
        if (labels[i] != 255)
          sum -= std::pow(1 - probability(x, i), gamma) * std::log(probability(x, i)) / totals[i / pixels] /
                 count;
      return sum;
    };
    const Tensor x = from_vector(logits, {count, height, width}).requires_grad();
    const Tensor found =
        nn::normalised_focal_loss(x, from_vector(labels, {count, height, width}), gamma, 255);
    CHECK(std::abs(found.item() - loss(logits)) <= 1e-6 * loss(logits));
    found.backward();
    const std::vector<double> gradient = x.grad().to_vector();
    for (size_t i = 0; i < logits.size(); ++i) {
      constexpr float step = 1e-3f;
      std::vector<float> above = logits, below = logits;
      above[i] += step;
      below[i] -= step;
      const double slope = (loss(above) - loss(below)) / double(above[i] - below[i]);
      CHECK(std::abs(gradient[i] - slope) <= 1e-5);
    }
  }
  // Nothing labelled is no loss, and very sure logits are finite.
  const Tensor none = full({1, 2, 2}, 255, DType::i64);
  CHECK(nn::normalised_focal_loss(zeros({1, 2, 2}), none, 2, 255).item() == 0);
  const Tensor sure = from_vector(std::vector<float>{200, -200, 200, -200}, {1, 2, 2}).requires_grad();
  const Tensor ends =
      nn::normalised_focal_loss(sure, from_vector(std::vector<int64_t>{1, 0, 0, 1}, {1, 2, 2}), 2, 255);
  CHECK(std::abs(ends.item() - 200) <= 1e-3);
  ends.backward();
  for (const double g : sure.grad().to_vector()) CHECK(std::isfinite(g));
}
