#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "engine/ops.h"
#include "nn/attention/probabilistic.h"
#include "tests/differences.h"

// Interactive labelling of tokens with nothing learned: units with noisy keys and values that are wrong for
// whole clusters of tokens, and a user who clicks on errors. Does a click reach the tokens alike (value
// propagation), and do keys adapted to the queries help (key adaptation)?
using namespace pursuit;

namespace {

constexpr int64_t tokens = 256, width = 8, clusters = 6, seeds = 120, most_clicks = 20;

struct Way {
  bool propagates = true;
  int adaptations = 0;
  double theta_keys = 0.1;
  double theta_values = 0.01;  // beta / theta = 100; 0: no prior
};

// A scene of every seed, drawn from (sigma of the keys, seed).
struct Scenes {
  explicit Scenes(double sigma) {
    std::vector<float> of_queries, of_keys, of_values;
    for (int64_t seed = 0; seed < seeds; ++seed) {
      std::mt19937_64 random{uint64_t(seed)};
      std::normal_distribution<double> normal;
      std::uniform_real_distribution<double> number;
      std::array<std::array<double, width>, clusters> centres;
      std::array<bool, clusters> misjudged;
      for (auto& centre : centres)
        for (double& x : centre) x = 1.6 * normal(random);
      for (bool& m : misjudged) m = number(random) < 0.35;
      for (int64_t i = 0; i < tokens; ++i) {
        const size_t c = random() % clusters;
        const double y = c < 2 ? 1 : -1;
        cluster.push_back(int(c));
        label.push_back(y);
        for (double x : centres[c]) of_queries.push_back(float(x + 0.5 * normal(random)));
        for (double x : centres[c]) of_keys.push_back(float(x + sigma * normal(random)));
        of_values.push_back(float(std::tanh((misjudged[c] ? -0.3 : 0.5) * y + 0.7 * normal(random))));
      }
    }
    queries = from_vector(of_queries, {seeds, 1, tokens, width});
    units = {from_vector(of_keys, {seeds, 1, tokens, width}), from_vector(of_values, {seeds, 1, tokens, 1}),
             full({1}, 1, DType::f32)};
  }
  Tensor queries;
  nn::GaussianUnits units;
  std::vector<int> cluster;   // [seeds * tokens]
  std::vector<double> label;  // +1 or -1
};

using Curve = std::array<double, most_clicks + 1>;  // IoU in percent after so many clicks

// The curves of all seeds.
std::vector<Curve> click(const Scenes& scenes, const Way& way) {
  const auto number = [](double x) { return full({1}, x, DType::f32); };
  const nn::GaussianUnits units =
      nn::adapt_keys(scenes.units, scenes.queries, {way.adaptations, number(way.theta_keys)});
  std::vector<std::vector<int64_t>> clicked(seeds);
  std::vector<Curve> curves(seeds);
  std::vector<std::mt19937_64> random;
  for (int64_t seed = 0; seed < seeds; ++seed) random.emplace_back(uint64_t(1000 + seed));
  for (int64_t clicks = 0; clicks <= most_clicks; ++clicks) {
    nn::GaussianUnits now = units;
    if (way.propagates && clicks > 0) {
      std::vector<int64_t> at;
      std::vector<float> values, known;
      for (size_t seed = 0; seed < seeds; ++seed)
        for (size_t c = 0; c < size_t(clicks); ++c) {
          const bool is = c < clicked[seed].size();
          at.push_back(is ? clicked[seed][c] : 0);
          values.push_back(float(scenes.label[seed * tokens + size_t(at.back())]));
          known.push_back(is);
        }
      const Tensor rows = from_vector(at, {seeds, 1, clicks, 1}).expand({seeds, 1, clicks, width});
      now = nn::propagate_values(
          units, gather(scenes.queries, 2, rows), from_vector(values, {seeds, 1, clicks, 1}),
          from_vector(known, {seeds, 1, clicks}), {1, number(way.theta_values), number(1)});
    }
    const std::vector<double> output = nn::expected_values(now, scenes.queries).to_vector();
    REQUIRE(std::all_of(output.begin(), output.end(), [](double x) { return std::isfinite(x); }));
    for (size_t seed = 0; seed < seeds; ++seed) {
      const auto is_clicked = [&](size_t i) {
        return std::find(clicked[seed].begin(), clicked[seed].end(), int64_t(i)) != clicked[seed].end();
      };
      double both = 0, either = 0;
      std::array<std::vector<int64_t>, clusters> errors;
      for (size_t i = 0; i < tokens; ++i) {
        const size_t at = seed * tokens + i;
        const bool is = scenes.label[at] > 0,
                   found = is_clicked(i) ? is : output[at] > 0;  // clicks are clamped
        both += is && found;
        either += is || found;
        if (is != found) errors[size_t(scenes.cluster[at])].push_back(int64_t(i));
      }
      curves[seed][size_t(clicks)] = either > 0 ? 100 * both / either : 100;
      const auto& most = *std::max_element(errors.begin(), errors.end(),
                                           [](const auto& a, const auto& b) { return a.size() < b.size(); });
      if (!most.empty()) clicked[seed].push_back(most[random[seed]() % most.size()]);
    }
  }
  return curves;
}

struct Difference {
  double mean, error;  // and its standard error
};
// Of IoU after the clicks [from, to], paired by seed.
Difference difference(const std::vector<Curve>& a, const std::vector<Curve>& b, size_t from, size_t to) {
  double sum = 0, squares = 0;
  for (size_t seed = 0; seed < a.size(); ++seed) {
    double d = 0;
    for (size_t k = from; k <= to; ++k) d += (a[seed][k] - b[seed][k]) / double(to - from + 1);
    sum += d;
    squares += d * d;
  }
  const double n = double(a.size()), mean = sum / n;
  return {mean, std::sqrt((squares / n - mean * mean) / (n - 1))};
}

// The mean number of clicks to an IoU of 90 %, 20 if it is not reached.
double clicks_to_90(const std::vector<Curve>& curves) {
  double sum = 0;
  for (const Curve& c : curves) {
    size_t k = 1;
    while (k < most_clicks && c[k] < 90) ++k;
    sum += double(k);
  }
  return sum / double(curves.size());
}

}  // namespace

TEST_CASE("clicked tokens: value propagation spreads clicks") {
  const Scenes scenes(1.5);
  const auto clamped = click(scenes, {.propagates = false}), propagated = click(scenes, {}),
             without_prior = click(scenes, {.theta_values = 0});
  const Difference two = difference(propagated, clamped, 2, 2), five = difference(propagated, clamped, 5, 5),
                   prior = difference(propagated, without_prior, 1, 1);
  MESSAGE("propagation - clamp: ", two.mean, " +- ", two.error, " points at 2 clicks, ", five.mean, " +- ",
          five.error, " at 5; with - without prior at 1: ", prior.mean, " +- ", prior.error,
          "; clicks to 90 %: ", clicks_to_90(propagated), " and ", clicks_to_90(clamped));
  CHECK(two.mean >= 25);
  CHECK(five.mean >= 45);
  CHECK(prior.mean >= 10);
  CHECK(clicks_to_90(propagated) <= 5);
  CHECK(clicks_to_90(clamped) >= 17);
}

TEST_CASE("clicked tokens: adapted keys help where keys are noisy and clicks are few") {
  const Way adapted{.adaptations = 3};
  {
    const Scenes scenes(1.5);
    const auto with = click(scenes, adapted), without = click(scenes, {});
    const Difference few = difference(with, without, 1, 3), ten = difference(with, without, 10, 10),
                     twenty = difference(with, without, 20, 20);
    MESSAGE("noisy keys: adaptation gains ", few.mean, " +- ", few.error, " points at 1 to 3 clicks, ",
            ten.mean, " at 10, ", twenty.mean, " at 20; clicks to 90 %: ", clicks_to_90(with), " and ",
            clicks_to_90(without));
    CHECK(few.mean >= 4);
    CHECK(few.mean - 1.96 * few.error > 0);
    CHECK(std::abs(ten.mean) <= 1.5);
    CHECK(std::abs(twenty.mean) <= 1.5);
  }
  const Scenes scenes(0.5);
  const auto with = click(scenes, adapted), without = click(scenes, {});
  double most = 0;
  for (size_t k = 1; k <= most_clicks; ++k)
    most = larger(most, std::abs(difference(with, without, k, k).mean));
  MESSAGE("exact keys: adaptation changes at most ", most, " points");
  CHECK(most <= 2);
}
