#include <doctest/doctest.h>

#include <cmath>

#include "apps/pca/draws.h"
#include "apps/pca/layer.h"
#include "apps/pca/prompts.h"
#include "apps/pca/published.h"
#include "apps/pca/references.h"
#include "apps/pca/training.h"
#include "engine/base/random.h"
#include "engine/cpu/parallel.h"
#include "engine/ops.h"
#include "tests/differences.h"

using namespace pursuit;
using namespace pursuit::pca;

// Box-Muller in double from the same words; numbers in f32 near |z| = 5 are 5e-7 apart.
TEST_CASE("pca: normal numbers") {
  constexpr int64_t n = 100000, first = 3 * normals_block;
  std::vector<float> z(n);
  draw_normals(3, 17, first, z.data(), n);
  double worst = 0, moments[5] = {};
  for (int64_t i = 0; i + 1 < n; i += 2) {
    const double u = 1.0 - double(philox_uniform(3, 17, uint64_t(first + i)));
    const double v = double(philox_uniform(3, 17, uint64_t(first + i + 1)));
    const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * M_PI * v;
    worst = larger(worst, std::fabs(z[size_t(i)] - radius * std::cos(angle)));
    worst = larger(worst, std::fabs(z[size_t(i + 1)] - radius * std::sin(angle)));
    for (const float value : {z[size_t(i)], z[size_t(i + 1)]})
      for (int k = 1; k <= 4; ++k) moments[k] += std::pow(double(value), k) / n;
  }
  CHECK(worst < 5e-6);
  // Four standard errors: 1, sqrt 2, sqrt 15 and sqrt 96 over sqrt n.
  const double root = std::sqrt(double(n));
  CHECK(std::fabs(moments[1]) < 4 / root);
  CHECK(std::fabs(moments[2] - 1) < 4 * std::sqrt(2.0) / root);
  CHECK(std::fabs(moments[3]) < 4 * std::sqrt(15.0) / root);
  CHECK(std::fabs(moments[4] - 3) < 4 * std::sqrt(96.0) / root);
}

TEST_CASE("pca: the tokens of a prompt have the covariance") {
  const Covariance sigma = published_covariance();
  const Setting s = {.prompts = Prompts::drawn, .length = 50, .runs = 2, .per_covariance = 2000};
  const PromptSource source(s, sigma, 1, 0);
  const std::vector<double> x = source.draw(1).to_vector();
  const size_t tokens = x.size() / 5;
  REQUIRE(tokens == 200000);
  for (size_t i = 0; i < 5; ++i)
    for (size_t j = 0; j < 5; ++j) {
      double moment = 0;
      for (size_t t = 0; t < tokens; ++t) moment += x[t * 5 + i] * x[t * 5 + j] / double(tokens);
      const double error = std::sqrt(
          (sigma.matrix[i * 6] * sigma.matrix[j * 6] + sigma.matrix[i * 5 + j] * sigma.matrix[i * 5 + j]) /
          double(tokens));
      CHECK(std::fabs(moment - sigma.matrix[i * 5 + j]) < 4.5 * error);
    }
  // Another step and another point of a sweep have other prompts; a run's are its own whatever the others.
  CHECK(source.draw(2).to_vector() != x);
  CHECK(PromptSource(s, sigma, 1, 1).draw(1).to_vector() != x);
  Setting one = s;
  one.runs = 1;
  const std::vector<double> alone = PromptSource(one, sigma, 1, 0).draw(1).to_vector();
  CHECK(std::equal(alone.begin(), alone.end(), x.begin()));
  CHECK(!std::equal(alone.begin(), alone.end(), x.begin() + std::ptrdiff_t(alone.size())));
}

// Along v the variance of a prompt is w = v^T Sigma v, and E w^2 = kappa^2 (n^2 + 2 n) with kappa = 1 +
// theta: the mean of the product of two tokens' squares, which is kappa^2 n^2 for tokens of different
// covariances.
TEST_CASE("pca: prompts in context share a Wishart covariance") {
  const Setting s = {.prompts = Prompts::drawn,
                     .in_context = true,
                     .length = 4,
                     .vectors = 10,
                     .runs = 1,
                     .covariances = 20000,
                     .per_covariance = 2};
  const Covariance v = spiked_covariance(5, s.theta, 0);
  const std::vector<double> x = PromptSource(s, v, 4, 0).draw(1).to_vector();
  const size_t covariances = 20000, tokens = 8;
  double mean = 0, same = 0, other = 0;
  const auto square_at = [&](size_t c, size_t t) {
    const double along = dot({x.data() + (c * tokens + t) * 5, 5}, v.vector(0));
    return along * along;
  };
  for (size_t c = 0; c < covariances; ++c) {
    for (size_t t = 0; t < tokens; ++t) mean += square_at(c, t) / double(covariances * tokens);
    for (size_t t = 0; t < tokens; t += 2) {
      same += square_at(c, t) * square_at(c, (t + 5) % tokens) / double(covariances * tokens / 2);
      other += square_at(c, t) * square_at((c + 1) % covariances, t) / double(covariances * tokens / 2);
    }
  }
  CHECK(mean == doctest::Approx(30).epsilon(0.02));
  CHECK(same == doctest::Approx(9 * 120).epsilon(0.06));
  CHECK(other == doctest::Approx(9 * 100).epsilon(0.06));
}

// Against the fused operator with full-width queries X (lambda mu mu^T), of which the first row is taken.
TEST_CASE("pca: the softmax layer is the first row of the engine's attention") {
  const int64_t runs = 2, batch = 3, length = 9, d = 5;
  const double lambda = 0.3;
  const Tensor x = normal({runs, batch, length, d}, 0, 1.5, 5, 1, DType::f64);
  const Tensor mu = normal({runs, d}, 0, 1, 5, 2, DType::f64);
  const Tensor y = first_outputs(Layer::softmax, mu, x, lambda);
  REQUIRE(y.shape() == Shape{runs, batch, d});
  for (int64_t run = 0; run < runs; ++run) {
    const Tensor m = mu[run].reshape({d, 1});
    const Tensor q = matmul(x[run], matmul(m, m.transpose(0, 1)) * lambda);
    const Tensor packed = stack({q, x[run], x[run]}, 2).reshape({batch, length, 3, 1, d});
    const Tensor fused = attention(packed, {.scale = 1}).select(1, 0);
    const std::vector<double> ours = y[run].to_vector(), theirs = fused.to_vector();
    for (size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == doctest::Approx(theirs[i]).epsilon(1e-10));
  }
}

// The gradient by hand: with r = X_1 - output, g_k = -2 r X_k; softmax: ds_k = w_k (g_k - sum_j w_j g_j),
// linear: ds_k = g_k; gradient = lambda ((sum_k ds_k beta_k) X_1 + alpha sum_k ds_k X_k), alpha = X_1 mu,
// beta_k = X_k mu.
TEST_CASE("pca: the tape's gradient of a layer is the one by hand") {
  const int64_t runs = 2, batch = 4, length = 7, d = 3;
  const double lambda = 0.2;
  const Tensor prompts = normal({runs, batch, length, d}, 0, 1.2, 8, 1, DType::f64);
  const std::vector<double> all = prompts.to_vector();
  for (const Layer layer : {Layer::softmax, Layer::linear}) {
    Tensor mu = normal({runs, d}, 0, 0.7, 8, 2, DType::f64);
    mu.requires_grad();
    const Tensor losses = reconstruction_losses(layer, mu, prompts, lambda);
    sum(losses).backward();
    const std::vector<double> m = mu.to_vector(), tape = mu.grad().to_vector(), loss = losses.to_vector();
    for (int64_t run = 0; run < runs; ++run) {
      double expected_loss = 0, gradient[3] = {};
      const double* direction = m.data() + run * d;
      for (int64_t b = 0; b < batch; ++b) {
        const double* x = all.data() + (run * batch + b) * length * d;
        const auto row = [&](int64_t k) { return std::span<const double>(x + k * d, size_t(d)); };
        std::vector<double> beta, w;
        for (int64_t k = 0; k < length; ++k) beta.push_back(dot(row(k), {direction, size_t(d)}));
        double total = 0;
        for (const double v : beta) {
          w.push_back(layer == Layer::softmax ? std::exp(lambda * beta[0] * v) : lambda * beta[0] * v);
          total += w.back();
        }
        if (layer == Layer::softmax)
          for (double& v : w) v /= total;
        double r[3], mean = 0, weighted = 0;
        for (int64_t i = 0; i < d; ++i) {
          r[i] = x[i];
          for (int64_t k = 0; k < length; ++k) r[i] -= w[size_t(k)] * x[k * d + i];
          expected_loss += r[i] * r[i] / double(batch);
        }
        std::vector<double> ds;
        for (int64_t k = 0; k < length; ++k) {
          ds.push_back(-2 * dot({r, size_t(d)}, row(k)));
          mean += w[size_t(k)] * ds.back();
        }
        for (int64_t k = 0; k < length; ++k) {
          if (layer == Layer::softmax) ds[size_t(k)] = w[size_t(k)] * (ds[size_t(k)] - mean);
          weighted += ds[size_t(k)] * beta[size_t(k)];
        }
        for (int64_t i = 0; i < d; ++i) {
          double sum = weighted * x[i];
          for (int64_t k = 0; k < length; ++k) sum += beta[0] * ds[size_t(k)] * x[k * d + i];
          gradient[i] += lambda * sum / double(batch);
        }
      }
      CHECK(loss[size_t(run)] == doctest::Approx(expected_loss).epsilon(1e-10));
      for (int64_t i = 0; i < d; ++i)
        CHECK(tape[size_t(run * d + i)] == doctest::Approx(gradient[i]).epsilon(1e-9));
    }
  }
}

// One prompt of so many tokens that it is as good as infinite: the output is lambda Sigma mu (mu X_1).
TEST_CASE("pca: softmax on a long prompt is linear") {
  const Covariance sigma = published_covariance();
  const Setting s = {.prompts = Prompts::drawn, .length = 400000, .runs = 1, .per_covariance = 1};
  const Tensor prompt = PromptSource(s, sigma, 6, 0).draw(1);
  const std::vector<double> mu = {0.2, -0.1, 0.15, 0.05, 0.1};
  const double lambda = 0.1;
  const Tensor leaf = from_vector(std::vector<float>(mu.begin(), mu.end()), {1, 5});
  const std::vector<double> y = first_outputs(Layer::softmax, leaf, prompt, lambda).to_vector();
  const std::vector<double> first = prompt.slice(2, 0, 1).to_vector(), once = sigma.times(mu);
  double error = 0, size = 0;
  for (size_t i = 0; i < 5; ++i) {
    const double expected = lambda * once[i] * dot(first, mu);
    error += (y[i] - expected) * (y[i] - expected);
    size += expected * expected;
  }
  REQUIRE(size > 0);
  // The standard error of a mean of that many tokens is 0.005 times their deviation.
  CHECK(std::sqrt(error) < 4 * std::sqrt(sigma.trace() / double(s.length)));
}

TEST_CASE("pca: the references") {
  const Covariance sigma = published_covariance();
  const Setting s = {.prompts = Prompts::drawn, .length = 20, .runs = 3, .per_covariance = 100};
  const PromptSource source(s, sigma, 2, 0);
  const Values starts = starts_of(s, 2);
  References references(starts);
  CHECK(references.oja(1, sigma.vector(0)) == doctest::Approx(cosine(starts[1], sigma.vector(0))));
  std::vector<double> moment(25);
  for (int64_t step = 1; step <= 40; ++step) {
    const Tensor prompts = source.draw(step);
    references.add(prompts);
    const std::vector<double> x = prompts[1].to_vector();  // of run 1
    for (size_t at = 0; at < x.size(); at += 5)
      for (size_t i = 0; i < 5; ++i)
        for (size_t j = 0; j < 5; ++j) moment[i * 5 + j] += x[at + i] * x[at + j];
  }
  for (size_t i = 0; i < 5; ++i)
    for (size_t j = 0; j < i; ++j) moment[i * 5 + j] = moment[j * 5 + i];
  const Covariance sample(moment, 5);
  CHECK(references.sample_pca(1, sigma.vector(0)) ==
        doctest::Approx(cosine(sample.vector(0), sigma.vector(0))).epsilon(1e-6));
  for (int64_t run = 0; run < 3; ++run) {
    CHECK(references.sample_pca(run, sigma.vector(0)) > 0.995);
    CHECK(references.oja(run, sigma.vector(0)) > 0.98);
  }
}

// Bit for bit.
TEST_CASE("pca: the number of threads changes nothing") {
  Setting s = {.prompts = Prompts::drawn,
               .length = 12,
               .lambda = 0.1,
               .learning_rate = 1e-4,
               .steps = 20,
               .runs = 3,
               .per_covariance = 40,
               .start = 0.1};
  const int before = num_threads();
  std::vector<Values> norms;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    norms.push_back(train({s, published_covariance(), 7, 0, 20}).norm);
  }
  set_num_threads(before);
  CHECK(norms[0][2].back() != norms[0][2].front());
  CHECK(norms[1] == norms[0]);
  CHECK(norms[2] == norms[0]);
}
