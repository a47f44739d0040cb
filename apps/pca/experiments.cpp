#include "apps/pca/experiments.h"

#include <algorithm>

#include "apps/command/choice.h"
#include "engine/base/error.h"

namespace pursuit::pca {

namespace {

std::vector<int64_t> every_fifth() {  // 3, 8, ..., 98
  std::vector<int64_t> values;
  for (int64_t v = 3; v <= 98; v += 5) values.push_back(v);
  return values;
}

// 20 whole numbers from 3 to 50, rounded down from evenly spaced ones.
std::vector<int64_t> lengths_to_50() {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < 20; ++i) values.push_back(3 + 47 * i / 19);
  return values;
}

}  // namespace

std::vector<Experiment> all_experiments(bool full) {
  const int64_t few = full ? 10 : 4, side = full ? 100 : 30;
  const Setting softmax_exact = {.lambda = 0.01, .learning_rate = 1e-3, .steps = 3000};
  const Setting softmax_drawn = {
      .prompts = Prompts::drawn, .lambda = 0.1, .learning_rate = 1e-4, .steps = 3000, .start = 0.1};
  Setting linear_exact = {.layer = Layer::linear,
                          .length = 6,
                          .lambda = 0.01,
                          .learning_rate = 1e-4,
                          .steps = 5000,
                          .start = 0.01};
  Setting linear_drawn = linear_exact;
  linear_drawn.prompts = Prompts::drawn;
  const Setting context_exact = {.in_context = true, .lambda = 1e-3, .learning_rate = 5e-3, .steps = 1000};
  Setting context_drawn = context_exact;
  context_drawn.prompts = Prompts::drawn;
  context_drawn.covariances = context_drawn.per_covariance = side;

  std::vector<Experiment> all = {{"3a", "Softmax, prompts of 100 tokens", softmax_drawn},
                                 {"3b", "Softmax, infinite prompts", softmax_exact},
                                 {"4a", "Linear, prompts of 6 tokens", linear_drawn},
                                 {"4b", "Linear, exact risk of 6 tokens", linear_exact},
                                 {"2", "Softmax in context, infinite prompts, theta 2", context_exact},
                                 {"7a", "Softmax in context, prompts of 100 tokens", context_drawn},
                                 {"7b", "Softmax in context, infinite prompts, theta 0.1", context_exact}};
  all.back().setting.theta = 0.1;
  all.back().setting.steps = 10001;
  all.push_back({"4b-script", "Linear, the published script's gradient", linear_exact});
  all.back().setting.script_gradient = true;

  const auto sweep = [&](const char* name, const char* title, Setting setting, Axis axis,
                         std::vector<int64_t> values) {
    all.push_back({name, title, setting, axis, std::move(values)});
  };
  Setting s = softmax_drawn;
  s.steps = 5000, s.runs = few;
  sweep("5a", "Softmax, by the length of the prompts", s, Axis::length, lengths_to_50());
  s = linear_drawn;
  s.lambda = 0.001, s.runs = few;
  sweep("5b", "Linear, by the length of the prompts", s, Axis::length, lengths_to_50());
  s = softmax_exact;
  s.lambda = 0.1, s.learning_rate = 0.5, s.steps = 5000;
  sweep("6a", "Softmax, infinite prompts, by the dimension", s, Axis::dim, every_fifth());
  s = linear_exact;
  s.lambda = 0.01, s.learning_rate = 1, s.start = 0;
  sweep("6b", "Linear, exact risk of d tokens, by the dimension", s, Axis::dim, every_fifth());
  s = context_drawn;
  s.runs = few;
  sweep("8a", "Softmax in context, by the length of the prompts", s, Axis::length, every_fifth());
  s = context_exact;
  s.lambda = 0.1, s.learning_rate = 0.5, s.steps = 2000, s.runs = few;
  sweep("8b", "Softmax in context, infinite prompts, by the dimension", s, Axis::dim, every_fifth());
  return all;
}

const std::vector<Figure>& all_figures() {
  static const std::vector<Figure> figures = {
      {"1", "Softmax: infinite prompts and prompts of 100 tokens", {"3b", "3a"}},
      {"2", "In context: infinite prompts and prompts of 100 tokens", {"2", "7a"}},
      {"3a", "Softmax, prompts of 100 tokens", {"3a"}},
      {"3b", "Softmax, infinite prompts", {"3b"}},
      {"4a", "Linear, prompts of 6 tokens", {"4a"}},
      {"4b", "Linear, exact risk", {"4b", "4b-script"}},
      {"5a", "Softmax by the length of the prompts", {"5a"}},
      {"5b", "Linear by the length of the prompts", {"5b"}},
      {"6a", "Softmax by the dimension", {"6a"}},
      {"6b", "Linear by the dimension", {"6b"}},
      {"7a", "In context, prompts of 100 tokens", {"7a"}},
      {"7b", "In context, a weak spike", {"7b"}},
      {"8a", "In context by the length of the prompts", {"8a"}},
      {"8b", "In context by the dimension", {"8b"}}};
  return figures;
}

std::vector<Figure> figures_named(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const Figure& figure : all_figures()) known.push_back(figure.name);
  const std::vector<std::string> asked = apps::chosen("--figure", names, known);
  std::vector<Figure> figures;
  for (const Figure& figure : all_figures())
    if (std::count(asked.begin(), asked.end(), figure.name) > 0) figures.push_back(figure);
  return figures;
}

Experiment experiment_named(const std::string& name, bool full) {
  for (const Experiment& e : all_experiments(full))
    if (e.name == name) return e;
  fail("pca", "there is no experiment '" + name + "'");
}

Setting setting_at(const Experiment& experiment, int64_t value) {
  Setting s = experiment.setting;
  if (experiment.axis == Axis::length) s.length = value;
  if (experiment.axis == Axis::dim) {
    s.dim = s.length = s.vectors = value;
    s.lambda /= double(value);
    s.learning_rate /= double(value) * double(value);
  }
  return s;
}

}  // namespace pursuit::pca
