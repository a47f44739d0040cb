#include "apps/pca/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/pca/draws.h"
#include "apps/pca/layer.h"
#include "apps/pca/prompts.h"
#include "apps/pca/published.h"
#include "apps/pca/references.h"
#include "apps/pca/risk.h"
#include "engine/base/error.h"
#include "engine/base/random.h"
#include "engine/cpu/parallel.h"
#include "engine/ops.h"

namespace pursuit::pca {

namespace {

// The iterations of the records: 0, 1, every `steps / records`-th and the last.
std::vector<int64_t> record_iterations(int64_t steps, int64_t records) {
  const int64_t every = std::max<int64_t>(1, steps / std::max<int64_t>(1, records));
  std::vector<int64_t> iterations = {0};
  for (int64_t t = 1; t <= steps; ++t)
    if (t == 1 || t == steps || t % every == 0) iterations.push_back(t);
  return iterations;
}

Trace empty_trace(const Training& t) {
  Trace trace;
  trace.iterations = record_iterations(t.setting.steps, t.records);
  for (Values* values : {&trace.cosine, &trace.norm, &trace.risk}) values->resize(size_t(t.setting.runs));
  if (t.setting.prompts == Prompts::drawn)
    for (Values* values : {&trace.oja, &trace.sample_pca}) values->resize(size_t(t.setting.runs));
  return trace;
}

void check_finite(const std::vector<double>& mu, int64_t run, int64_t step) {
  for (const double v : mu)
    if (!std::isfinite(v))
      fail("pca", fmt::format("mu of run {} is not finite after step {}: the learning rate or lambda is too "
                              "large; give a smaller one",
                              run + 1, step));
}

// Full gradients of the closed form, in double.
void descend(const Training& t, const ExactRisk& risk, Values& mus, Trace& trace) {
  const auto record = [&](size_t run) {
    trace.cosine[run].push_back(cosine(mus[run], t.covariance.vector(0)));
    trace.norm[run].push_back(norm(mus[run]));
    trace.risk[run].push_back(risk(mus[run]));
  };
  for (size_t run = 0; run < mus.size(); ++run) record(run);
  for (size_t k = 1; k < trace.iterations.size(); ++k) {
    const int64_t steps = trace.iterations[k] - trace.iterations[k - 1];
    parallel_for(t.setting.runs, 1, [&](int64_t begin, int64_t end) {
      for (size_t run = size_t(begin); run < size_t(end); ++run) {
        for (int64_t step = 0; step < steps; ++step) {
          const std::vector<double> gradient = risk.gradient(mus[run]);
          for (size_t i = 0; i < gradient.size(); ++i) mus[run][i] -= t.setting.learning_rate * gradient[i];
        }
        check_finite(mus[run], int64_t(run), trace.iterations[k]);
        record(run);
      }
    });
    if (t.tick && !t.tick(steps)) {
      trace.iterations.resize(k + 1);
      return;
    }
  }
}

// The gradient of every run's loss on its own prompts by the tape; mu is kept in double.
void descend_on_prompts(const Training& t, Values& mus, Trace& trace) {
  const Setting& s = t.setting;
  const PromptSource source(s, t.covariance, t.seed, t.point);
  References references(mus);
  std::vector<double> losses(size_t(s.runs));
  int64_t averaged = 0;
  const auto record = [&] {
    for (size_t run = 0; run < mus.size(); ++run) {
      trace.cosine[run].push_back(cosine(mus[run], t.covariance.vector(0)));
      trace.norm[run].push_back(norm(mus[run]));
      trace.risk[run].push_back(losses[run] / double(averaged));  // NaN at the start, which has none
      trace.oja[run].push_back(references.oja(int64_t(run), t.covariance.vector(0)));
      trace.sample_pca[run].push_back(averaged ? references.sample_pca(int64_t(run), t.covariance.vector(0))
                                               : NAN);
    }
    std::fill(losses.begin(), losses.end(), 0.0);
    averaged = 0;
  };
  record();
  size_t next = 1;
  for (int64_t step = 1; step <= s.steps; ++step) {
    std::vector<float> values;
    for (const std::vector<double>& mu : mus)
      for (const double v : mu) values.push_back(float(v));
    Tensor mu = from_vector(values, {s.runs, s.dim});
    mu.requires_grad();
    const Tensor prompts = source.draw(step);
    const Tensor loss = reconstruction_losses(s.layer, mu, prompts, s.lambda);
    sum(loss).backward();
    references.add(prompts);

    const std::vector<double> gradient = mu.grad().to_vector(), now = loss.to_vector();
    for (size_t run = 0; run < mus.size(); ++run) {
      for (size_t i = 0; i < mus[run].size(); ++i)
        mus[run][i] -= s.learning_rate * gradient[run * mus[run].size() + i];
      losses[run] += now[run];
      check_finite(mus[run], int64_t(run), step);
    }
    ++averaged;
    if (step == trace.iterations[next]) {
      record();
      ++next;
    }
    if (t.tick && !t.tick(1)) break;
  }
  trace.iterations.resize(next);
}

}  // namespace

Covariance covariance_of(const Setting& setting, uint64_t seed) {
  if (setting.in_context) return spiked_covariance(setting.dim, setting.theta, seed);
  return is_published(setting.dim) ? published_covariance(setting.dim) : random_covariance(setting.dim, seed);
}

Values starts_of(const Setting& setting, uint64_t seed) {
  const bool published =
      seed == 0 && setting.prompts == Prompts::exact && !setting.in_context && is_published(setting.dim);
  Values starts;
  const auto drawn = [&](int64_t run) {
    Random random(seed, stream_of(Draw::start, 0, 0, run));
    std::vector<double> z(size_t(setting.dim));
    for (double& v : z) v = random.normal();
    return z;
  };
  for (int64_t run = 0; run < setting.runs; ++run) {
    std::vector<double> mu =
        published && run < published_runs ? published_start(setting.dim, run) : drawn(run);
    const double factor = setting.start > 0 ? setting.start : 1 / norm(mu);
    for (double& v : mu) v *= factor;
    starts.push_back(mu);
  }
  return starts;
}

Trace train(const Training& training) {
  Trace trace = empty_trace(training);
  Values mus = starts_of(training.setting, training.seed);
  if (training.setting.prompts == Prompts::exact)
    descend(training, ExactRisk(training.setting, training.covariance), mus, trace);
  else
    descend_on_prompts(training, mus, trace);
  return trace;
}

}  // namespace pursuit::pca
