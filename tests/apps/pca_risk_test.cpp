#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "apps/pca/experiments.h"
#include "apps/pca/layer.h"
#include "apps/pca/prompts.h"
#include "apps/pca/published.h"
#include "apps/pca/risk.h"
#include "apps/pca/training.h"
#include "engine/base/random.h"
#include "engine/ops.h"
#include "engine/solve/linalg.h"
#include "tests/message_of.h"

using namespace pursuit;
using namespace pursuit::pca;

namespace {

std::vector<double> direction(uint64_t seed, int64_t d, double length) {
  Random random(seed, 7);
  std::vector<double> mu(static_cast<size_t>(d));
  for (double& v : mu) v = random.normal();
  const double now = norm(mu);
  for (double& v : mu) v *= length / now;
  return mu;
}

Setting linear(int64_t length) { return {.layer = Layer::linear, .length = length, .lambda = 0.01}; }
Setting in_context(int64_t n, double theta) {
  return {.in_context = true, .vectors = n, .theta = theta, .lambda = 1e-3};
}

// The risks with closed forms, on the published covariance or a spiked one.
std::vector<ExactRisk> risks() {
  const Covariance sigma = published_covariance();
  return {ExactRisk({.lambda = 0.01}, sigma), ExactRisk({.lambda = 0.1}, sigma), ExactRisk(linear(6), sigma),
          ExactRisk(linear(3), sigma), ExactRisk(in_context(10, 2), random_covariance(4, 3))};
}

std::vector<double> times(double factor, std::span<const double> x) {
  std::vector<double> y(x.begin(), x.end());
  for (double& v : y) v *= factor;
  return y;
}

// R as the tape sees it, of the formulas for a single covariance, in f64.
Tensor tape_risk(const Setting& s, const Covariance& c, const Tensor& mu) {
  const Tensor sigma = from_vector(c.matrix, {c.dim, c.dim}), once = matmul(sigma, mu);
  const Tensor a = sum(mu * once), b = sum(once * once);
  const double t = c.trace(), l = double(s.in_context ? s.vectors : s.length), lambda = s.lambda;
  if (s.layer == Layer::softmax && !s.in_context) return a * b * (lambda * lambda) - b * (2 * lambda) + t;
  const Tensor risk =
      (a * t + b * (l + 1)) * (-2 * lambda) + (a * a * t + a * b * (l + 3)) * (lambda * lambda * (l + 2)) + t;
  return s.in_context ? risk * l : risk;
}

}  // namespace

// A linear layer on drawn prompts, 4e5 of them for each L; the engine's operators compute the outputs.
TEST_CASE("pca: drawn prompts have the exact linear risk within 1 %") {
  const Covariance sigma = published_covariance();
  for (const int64_t length : {int64_t(1), int64_t(6), int64_t(20)}) {
    Setting s = linear(length);
    s.runs = 1;
    s.per_covariance = 10000;
    const PromptSource source(s, sigma, 5, 0);
    const std::vector<double> mu = direction(uint64_t(length), 5, 0.9);
    const Tensor on_tape = from_vector(std::vector<float>(mu.begin(), mu.end()), {1, 5});
    double drawn = 0;
    for (int64_t step = 1; step <= 40; ++step)
      drawn += reconstruction_losses(s.layer, on_tape, source.draw(step), s.lambda).item() / 40;
    CAPTURE(length);
    CHECK(drawn == doctest::Approx(ExactRisk(s, sigma)(mu)).epsilon(0.01));
  }
}

TEST_CASE("pca: Wishart draws have the exact risk in context within 1 %") {
  const Setting s = in_context(10, 2);
  const Covariance v = spiked_covariance(5, s.theta, 1);
  const std::vector<double> mu = direction(11, 5, 3);
  std::vector<double> factor = v.matrix;
  cholesky(factor, 5);
  Random random(2, 9);
  double risk = 0;
  constexpr int draws = 400000;
  for (int draw = 0; draw < draws; ++draw) {
    // Of Sigma = sum x x^T only tr Sigma, mu^T Sigma mu and |Sigma mu|^2 are needed.
    double trace = 0, a = 0, once[5] = {};
    for (int64_t k = 0; k < s.vectors; ++k) {
      double z[5], x[5] = {}, along = 0;
      for (double& value : z) value = random.normal();
      for (int i = 0; i < 5; ++i) {
        for (int j = 0; j <= i; ++j) x[i] += factor[size_t(i * 5 + j)] * z[j];
        trace += x[i] * x[i];
        along += x[i] * mu[size_t(i)];
      }
      a += along * along;
      for (int i = 0; i < 5; ++i) once[i] += x[i] * along;
    }
    double b = 0;
    for (const double value : once) b += value * value;
    risk += (trace - 2 * s.lambda * b + s.lambda * s.lambda * a * b) / draws;
  }
  CHECK(risk == doctest::Approx(ExactRisk(s, v)(mu)).epsilon(0.01));
}

TEST_CASE("pca: the risk in context is n times the linear risk with L = n") {
  const Covariance v = spiked_covariance(5, 2, 4);
  for (const int64_t n : {int64_t(1), int64_t(10), int64_t(37)})
    for (const double length : {0.1, 3.0, 20.0}) {
      Setting alike = linear(n);
      alike.lambda = 1e-3;
      const std::vector<double> mu = direction(uint64_t(n), 5, length);
      CHECK(ExactRisk(in_context(n, 2), v)(mu) ==
            doctest::Approx(double(n) * ExactRisk(alike, v)(mu)).epsilon(1e-10));
    }
}

TEST_CASE("pca: the gradient is the tape's") {
  const Covariance sigma = published_covariance();
  int compared = 0;
  for (const Setting& s : {Setting{.lambda = 0.1}, linear(6), in_context(10, 2)})
    for (const double length : {0.05, 1.0, 4.0}) {
      const std::vector<double> mu = direction(3, 5, length);
      Tensor leaf = from_vector(mu, {5, 1});
      leaf.requires_grad();
      const Tensor risk = tape_risk(s, sigma, leaf);
      risk.backward();
      const ExactRisk exact(s, sigma);
      CHECK(exact(mu) == doctest::Approx(risk.item()).epsilon(1e-12));
      const std::vector<double> gradient = exact.gradient(mu), tape = leaf.grad().to_vector();
      for (size_t i = 0; i < 5; ++i, ++compared)
        CHECK(std::fabs(gradient[i] - tape[i]) <= 1e-12 * norm(tape));
    }
  CHECK(compared == 45);
}

TEST_CASE("pca: the gradient vanishes at the stationary points") {
  for (const ExactRisk& risk : risks())
    for (int64_t i = 0; i < risk.covariance().dim; ++i)
      for (const double sign : {1.0, -1.0}) {
        const std::vector<double> at = times(sign * risk.stationary_norm(i), risk.covariance().vector(i));
        CHECK(norm(risk.gradient(at)) < 1e-10);
        CHECK(risk(at) == doctest::Approx(risk.stationary_risk(i)).epsilon(1e-12));
      }
}

// The Hessian by central differences of the gradient; its eigenvalues are the curvatures, of which i are
// negative.
TEST_CASE("pca: the Hessian at the stationary points") {
  for (const ExactRisk& risk : risks()) {
    const int64_t d = risk.covariance().dim;
    const auto hessian_at = [&](const std::vector<double>& at) {
      const double h = 1e-4;
      std::vector<double> hessian;
      for (int64_t j = 0; j < d; ++j) {
        std::vector<double> up = at, down = at;
        up[size_t(j)] += h, down[size_t(j)] -= h;
        const std::vector<double> high = risk.gradient(up), low = risk.gradient(down);
        for (size_t k = 0; k < high.size(); ++k) hessian.push_back((high[k] - low[k]) / (2 * h));
      }
      for (int64_t j = 0; j < d; ++j)  // symmetric up to rounding
        for (int64_t k = 0; k < j; ++k) hessian[size_t(k * d + j)] = hessian[size_t(j * d + k)];
      std::vector<double> values(static_cast<size_t>(d));
      symmetric_eigen(hessian.data(), d, d, values.data());
      return values;
    };
    const auto check = [&](const std::vector<double>& found, std::vector<double> expected) {
      std::sort(expected.begin(), expected.end());
      for (size_t j = 0; j < expected.size(); ++j)
        CHECK(found[j] == doctest::Approx(expected[j]).epsilon(1e-4));
    };
    for (int64_t i = 0; i < d; ++i) {
      const auto found = hessian_at(times(risk.stationary_norm(i), risk.covariance().vector(i)));
      std::vector<double> expected;
      for (int64_t j = 0; j < d; ++j) expected.push_back(risk.curvature(i, j));
      check(found, expected);
      CHECK(std::count_if(found.begin(), found.end(), [](double v) { return v < 0; }) == i);
    }
    std::vector<double> expected;
    for (int64_t j = 0; j < d; ++j) expected.push_back(risk.curvature_at_zero(j));
    check(hessian_at(std::vector<double>(static_cast<size_t>(d))), expected);
  }
}

// The closed forms of single layers, written out.
TEST_CASE("pca: norms, risks and curvatures of the theory") {
  const Covariance sigma = published_covariance();
  const double t = sigma.trace();
  CHECK(t == doctest::Approx(35.23396).epsilon(1e-6));
  const double eigenvalues[] = {15.76891, 10.90425, 5.42721, 2.63019, 0.50340};
  const double lambda = 0.01, l = 6;
  const ExactRisk softmax({.lambda = lambda}, sigma), six(linear(6), sigma);
  for (int64_t i = 0; i < 5; ++i) {
    const double s = sigma.values[size_t(i)];
    CHECK(s == doctest::Approx(eigenvalues[i]).epsilon(1e-5));
    CHECK(softmax.stationary_norm(i) == doctest::Approx(std::sqrt(1 / (lambda * s))).epsilon(1e-12));
    CHECK(softmax.stationary_risk(i) == doctest::Approx(t - s).epsilon(1e-12));
    CHECK(six.stationary_norm(i) ==
          doctest::Approx(std::sqrt((t + (l + 1) * s) / (lambda * (l + 2) * s * (t + (l + 3) * s)))));
    CHECK(six.curvature(i, i) == doctest::Approx(8 * lambda * (t * s + (l + 1) * s * s)));
    for (int64_t j = 0; j < 5; ++j) {
      const double along = sigma.values[size_t(j)];
      CHECK(softmax.curvature_at_zero(j) == doctest::Approx(-4 * lambda * along * along));
      CHECK(softmax.curvature(i, j) ==
            doctest::Approx(i == j ? 8 * lambda * s * s : 2 * lambda * along * (s - along)));
      if (i != j) CHECK((six.curvature(i, j) > 0) == (s > along));
    }
  }
  CHECK(softmax.stationary_norm(0) == doctest::Approx(2.518).epsilon(1e-3));
  CHECK(six.stationary_norm(0) == doctest::Approx(0.8072).epsilon(1e-3));
  CHECK(six.stationary_risk(0) == doctest::Approx(20.27).epsilon(1e-3));
  const ExactRisk spiked(in_context(10, 2), spiked_covariance(5, 2, 0));
  CHECK(spiked.stationary_norm(0) == doctest::Approx(4.915).epsilon(1e-3));
  CHECK(spiked.stationary_risk(0) == doctest::Approx(41.01).epsilon(1e-3));
  CHECK(message_of([&] { ExactRisk({.layer = Layer::linear, .in_context = true}, sigma); }) ==
        "[pca] the risk of the linear layer in context has no closed form here; draw prompts");
}

// The published settings and covariance; the starts are those of the seeds.
TEST_CASE("pca: infinite prompts, the published figures") {
  for (const uint64_t seed : {uint64_t(0), uint64_t(1), uint64_t(2)}) {
    CAPTURE(seed);
    struct Case {
      const char* name;
      double mean, least;
    };
    for (const Case& c : {Case{"3b", 0.98, 0.95}, Case{"4b", 0.999, 0.99}, Case{"2", 0.99, 0.99}}) {
      CAPTURE(c.name);
      const Setting s = experiment_named(c.name, false).setting;
      const Trace trace = train({s, covariance_of(s, seed), seed, 0, 10});
      REQUIRE(trace.cosine.size() == 10);
      double mean = 0;
      for (const std::vector<double>& run : trace.cosine) {
        CHECK(run.back() >= c.least);
        mean += run.back() / 10;
      }
      CHECK(mean >= c.mean);
    }
  }
}

TEST_CASE("pca: at convergence norm and risk are those of the minimum") {
  for (const char* name : {"3b", "4b", "2"}) {
    Setting s = experiment_named(name, false).setting;
    s.steps = 40000;
    const Covariance covariance = covariance_of(s, 0);
    const ExactRisk risk(s, covariance);
    const Trace trace = train({s, covariance, 0, 0, 1});
    for (size_t run = 0; run < 10; ++run) {
      CHECK(trace.norm[run].back() == doctest::Approx(risk.stationary_norm(0)).epsilon(1e-3));
      CHECK(trace.risk[run].back() == doctest::Approx(risk.stationary_risk(0)).epsilon(1e-3));
    }
  }
}

TEST_CASE("pca: a weak spike is slow") {
  const Setting weak = experiment_named("7b", false).setting, strong = experiment_named("2", false).setting;
  const auto mean_at = [](const Setting& s, int64_t step) {
    const Trace trace = train({s, covariance_of(s, 0), 0, 0, s.steps});
    double mean = 0;
    for (const std::vector<double>& run : trace.cosine) mean += run.at(size_t(step)) / double(s.runs);
    return mean;
  };
  CHECK(mean_at(weak, 10000) < 0.85);
  CHECK(mean_at(strong, 300) > 0.95);
}

// Erratum of figure 4b: the published script doubles the last term of the gradient.
TEST_CASE("pca: the published script's gradient ends too short") {
  Setting s = experiment_named("4b-script", false).setting;
  s.steps = 20000;
  const Trace trace = train({s, covariance_of(s, 0), 0, 0, 1});
  for (size_t run = 0; run < 10; ++run) {
    CHECK(trace.cosine[run].back() > 0.999);
    CHECK(trace.norm[run].back() == doctest::Approx(0.602).epsilon(2e-3));
  }
}

TEST_CASE("pca: a learning rate that is too large is an error") {
  const Setting s = {.lambda = 0.01, .learning_rate = 10, .steps = 1000};
  const std::string said = message_of([&] { train({s, published_covariance(), 0, 0, 100}); });
  CHECK(said.find("is not finite after step") != std::string::npos);
}
