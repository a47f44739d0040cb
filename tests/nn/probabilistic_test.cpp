#include "nn/attention/probabilistic.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/ops.h"
#include "engine/solve/gradcheck.h"
#include "nn/attention/attention.h"
#include "nn/attention/functions.h"
#include "tests/differences.h"

using namespace pursuit;
using nn::GaussianUnits;

namespace {

constexpr int64_t batch = 2, heads = 3, tokens = 7, width = 4, value_width = 2;

Tensor drawn(const Shape& shape, int stream, DType dtype = DType::f64, double lo = -1.5, double hi = 1.5) {
  return uniform(shape, lo, hi, /*seed*/ 5, uint64_t(stream), dtype);
}
Tensor number(double x, DType dtype = DType::f64) { return full({1}, x, dtype); }

// An own copy of a tensor's numbers, by indices.
struct Numbers {
  explicit Numbers(const Tensor& t) : shape(t.shape()), x(t.to(DType::f64).to_vector()) {}
  template <class... I> double operator()(I... i) const {
    const int64_t index[] = {int64_t(i)...};
    int64_t at = 0;
    for (size_t d = 0; d < sizeof...(I); ++d) at = at * shape[d] + (shape[d] == 1 ? 0 : index[d]);
    return x[size_t(at)];
  }
  Shape shape;
  std::vector<double> x;
};
// Of one number a unit, or one for all.
double of_unit(const Tensor& t, int64_t b, int64_t h, int64_t j) {
  const Numbers n(t);
  return t.ndim() == 1 ? n(0) : n(b, h, j);
}

// The logits (1) of one head, [M][N], by their definition; `known`: with the values' term.
std::vector<std::vector<double>> logits(const GaussianUnits& u, const Tensor& q, const Tensor& v, int64_t b,
                                        int64_t h) {
  const Numbers keys(u.keys), values(u.values), queries(q);
  const int64_t n = u.keys.size(2), d = u.keys.size(3), e = u.values.size(3);
  std::vector<std::vector<double>> s(size_t(q.size(2)), std::vector<double>(size_t(n)));
  for (int64_t j = 0; j < n; ++j) {
    const double alpha = of_unit(u.alpha, b, h, j), beta = u.beta.defined() ? of_unit(u.beta, b, h, j) : 0;
    double own = u.log_prior.defined() ? of_unit(u.log_prior, b, h, j) : 0;
    if (u.normalised)
      own += double(d) / 2 * std::log(alpha) + (beta > 0 ? double(e) / 2 * std::log(beta) : 0);
    for (int64_t i = 0; i < q.size(2); ++i) {
      double distance = 0, of_values = 0;
      for (int64_t c = 0; c < d; ++c) distance += std::pow(queries(b, h, i, c) - keys(b, h, j, c), 2);
      if (v.defined()) {
        const Numbers given(v);
        for (int64_t c = 0; c < e; ++c) of_values += std::pow(given(b, h, i, c) - values(b, h, j, c), 2);
      }
      s[size_t(i)][size_t(j)] = own - alpha / 2 * distance - beta / 2 * of_values;
    }
  }
  return s;
}

double log_sum_exp(const std::vector<double>& s) {
  const double most = *std::max_element(s.begin(), s.end());
  double sum = 0;
  for (double x : s) sum += std::exp(x - most);
  return most + std::log(sum);
}

// sum_i log sum_j exp s_ij over all heads.
double log_likelihood(const GaussianUnits& u, const Tensor& q, const Tensor& v) {
  double sum = 0;
  for (int64_t b = 0; b < q.size(0); ++b)
    for (int64_t h = 0; h < q.size(1); ++h)
      for (const std::vector<double>& row : logits(u, q, v, b, h)) sum += log_sum_exp(row);
  return sum;
}

double squared_distance(const Tensor& a, const Tensor& b) { return sum(square(a - b)).to(DType::f64).item(); }

// Leaves of a head's queries, keys and values, and the gradients of a weighted sum of f(q, k, v).
struct Run {
  Tensor y;
  std::array<Tensor, 3> gradients;
};
Run run(DType dtype, const std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>& f) {
  std::array<Tensor, 3> in;
  for (int i = 0; i < 3; ++i) {
    in[size_t(i)] = drawn({batch, heads, tokens, width}, i + 1).to(dtype);
    in[size_t(i)].requires_grad();
  }
  const Tensor y = f(in[0], in[1], in[2]);
  sum(y * drawn(y.shape(), 9).to(dtype)).backward();
  return {y.detach(), {in[0].grad(), in[1].grad(), in[2].grad()}};
}

}  // namespace

TEST_CASE("probabilistic attention: softmax attention is its special case") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const double alpha = 1 / std::sqrt(double(width)), bound = dtype == DType::f64 ? 1e-12 : 1e-5;
    const Run plain = run(dtype, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
      return nn::split_heads(attention(nn::pack({q, k, v})), heads);
    });
    for (const int iterations : {0, 2}) {  // T = 0 is what adapt_keys leaves as it is
      CAPTURE(iterations);
      const Run ours = run(dtype, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
        GaussianUnits u{k, v, number(alpha, dtype)};
        u.log_prior = nn::magnitude_prior(k, u.alpha);
        u = nn::adapt_keys(u, q, {iterations, number(1, dtype)});
        return nn::expected_values(u, q);
      });
      const auto as_expected = [&](double off) { return iterations == 0 ? off <= bound : off > bound; };
      CHECK(as_expected(largest_difference(ours.y, plain.y)));
      for (size_t i = 0; i < 3; ++i)
        CHECK(as_expected(largest_difference(ours.gradients[i], plain.gradients[i])));
    }
  }
}

TEST_CASE("probabilistic attention: posteriors by their definition") {
  GaussianUnits u{drawn({batch, heads, tokens, width}, 1), drawn({batch, heads, tokens, value_width}, 2),
                  number(0.7)};
  const Tensor q = drawn({batch, heads, tokens, width}, 3), v = drawn({batch, heads, tokens, value_width}, 4);
  const Shape of_units = {batch, heads, tokens};
  const auto compare = [&](const Tensor& known) {
    const Numbers w(nn::posterior(u, q, known)), mean(nn::expected_values(u, q, known)), values(u.values);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h) {
        const auto s = logits(u, q, known, b, h);
        for (int64_t i = 0; i < tokens; ++i) {
          const double total = log_sum_exp(s[size_t(i)]);
          std::array<double, value_width> sum = {};
          for (int64_t j = 0; j < tokens; ++j) {
            const double weight = std::exp(s[size_t(i)][size_t(j)] - total);
            CHECK(w(b, h, i, j) == doctest::Approx(weight).epsilon(1e-12));
            for (int64_t c = 0; c < value_width; ++c) sum[size_t(c)] += weight * values(b, h, j, c);
          }
          for (int64_t c = 0; c < value_width; ++c)
            CHECK(mean(b, h, i, c) == doctest::Approx(sum[size_t(c)]).epsilon(1e-12));
        }
      }
  };
  SUBCASE("uniform prior") { compare({}); }
  SUBCASE("a prior for every unit") {
    u.log_prior = drawn(of_units, 6);
    compare({});
  }
  SUBCASE("a precision for every unit") {
    u.alpha = drawn(of_units, 7, DType::f64, 0.2, 2);
    compare({});
  }
  SUBCASE("known values") {
    u.beta = number(0.4);
    compare(v);
  }
  SUBCASE("everything for every unit, with normalised densities") {
    u.alpha = drawn(of_units, 7, DType::f64, 0.2, 2);
    u.beta = drawn(of_units, 8, DType::f64, 0.2, 2);
    u.log_prior = drawn(of_units, 6);
    u.normalised = true;
    compare(v);
    compare({});
  }
}

TEST_CASE("probabilistic attention: uniform prior is a column bias, and causal rows see no later unit") {
  GaussianUnits u{drawn({batch, heads, tokens, width}, 1), drawn({batch, heads, tokens, width}, 2),
                  number(0.7)};
  const Tensor q = drawn({batch, heads, tokens, width}, 3);
  const Tensor bias = sum(square(u.keys), {3}, true) * (-0.7 / 2);
  const Tensor scores = matmul(q, u.keys.transpose(-1, -2)) * 0.7 + bias.transpose(-1, -2);
  CHECK(largest_difference(nn::expected_values(u, q), matmul(softmax(scores), u.values)) < 1e-12);
  const Tensor seen = log(lower_triangle(tokens, DType::f64, cpu));
  CHECK(largest_difference(nn::expected_values(u, q, {}, true), matmul(softmax(scores + seen), u.values)) <
        1e-12);
}

TEST_CASE("probabilistic attention: position tables, with the magnitude prior axial attention") {
  const double alpha = 0.6;
  const GaussianUnits u{drawn({batch, heads, tokens, width}, 1),
                        drawn({batch, heads, tokens, value_width}, 2), number(alpha)};
  const Tensor q = drawn({batch, heads, tokens, width}, 3);
  const nn::PositionTables tables{drawn({tokens, tokens, width}, 4), drawn({tokens, tokens, width}, 5),
                                  drawn({tokens, tokens, value_width}, 6)};
  const Numbers k(u.keys), mu(u.values), qs(q), rq(tables.queries), rk(tables.keys), rv(tables.values);
  for (const bool magnitude : {true, false}) {
    CAPTURE(magnitude);
    const nn::PositionalValues got = nn::positional_values(u, q, tables, magnitude);
    const Numbers values(got.values), positions(got.positions);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < tokens; ++i) {
          std::vector<double> s(tokens, 0.0);
          for (int64_t j = 0; j < tokens; ++j)
            for (int64_t c = 0; c < width; ++c) {
              const double x = qs(b, h, i, c), z = k(b, h, j, c), at = rq(i, j, c), of = rk(j, i, c);
              // By dot products, or by the distances of the definition.
              s[size_t(j)] +=
                  magnitude ? alpha * (x * z + x * at + z * of)
                            : -alpha / 2 * (std::pow(x - z, 2) + std::pow(x - at, 2) + std::pow(z - of, 2));
            }
          const double total = log_sum_exp(s);
          for (int64_t c = 0; c < value_width; ++c) {
            double y = 0, e = 0;
            for (int64_t j = 0; j < tokens; ++j) {
              y += std::exp(s[size_t(j)] - total) * mu(b, h, j, c);
              e += std::exp(s[size_t(j)] - total) * rv(i, j, c);
            }
            CHECK(values(b, h, i, c) == doctest::Approx(y).epsilon(1e-11));
            CHECK(positions(b, h, i, c) == doctest::Approx(e).epsilon(1e-11));
          }
        }
  }
}

TEST_CASE("key adaptation is EM: the penalised likelihood never falls") {
  const Shape shape = {1, 2, 24, 6};
  for (const DType dtype : {DType::f64, DType::f32})
    for (const bool magnitude : {false, true})
      for (const bool by_unit : {false, true})
        for (const double theta : {0.0, 0.1, 1.0, 10.0}) {
          CAPTURE(magnitude);
          CAPTURE(by_unit);
          CAPTURE(theta);
          GaussianUnits u{drawn(shape, 1, dtype), drawn(shape, 2, dtype), number(1.3, dtype)};
          if (by_unit) u.alpha = drawn({1, 2, 24}, 4, dtype, 0.5, 3);
          if (magnitude) u.log_prior = nn::magnitude_prior(u.keys, u.alpha);
          const Tensor q = drawn(shape, 3, dtype), first = u.keys;
          const nn::KeyAdaptation one{1, number(theta, dtype)};
          // A chain of single iterations has another centre each; so all iterations again and again.
          double before = log_likelihood(u, q, {});
          for (int t = 1; t <= (dtype == DType::f64 ? 50 : 20); ++t) {
            nn::KeyAdaptation how = one;
            how.iterations = t;
            const GaussianUnits now = nn::adapt_keys(u, q, how);
            const double after = log_likelihood(now, q, {}) - theta / 2 * squared_distance(now.keys, first);
            CHECK(after >= before - (dtype == DType::f64 ? 1e-9 : 1e-5 * std::abs(before)));
            if (t == 1) CHECK(after > before);  // something was done
            before = after;
          }
        }
}

TEST_CASE("key adaptation with a moving centre: the likelihood without prior never falls") {
  const Shape shape = {1, 2, 24, 6};
  GaussianUnits u{drawn(shape, 1), drawn(shape, 2), number(1.3)};
  const Tensor q = drawn(shape, 3);
  nn::KeyAdaptation how{1, number(1.0), nn::PriorCentre::moving};
  double before = log_likelihood(u, q, {});
  Tensor fixed, moving;
  for (int t = 1; t <= 50; ++t) {
    how.iterations = t;
    moving = nn::adapt_keys(u, q, how).keys;
    GaussianUnits now = u;
    now.keys = moving;
    const double after = log_likelihood(now, q, {});
    CHECK(after >= before - 1e-9);
    before = after;
  }
  how.centre = nn::PriorCentre::fixed;
  fixed = nn::adapt_keys(u, q, how).keys;
  CHECK(largest_difference(fixed, moving) > 0.1);
}

TEST_CASE("key adaptation: one update by its definition, and units that no query attends to") {
  GaussianUnits u{drawn({1, 1, 3, 2}, 1), drawn({1, 1, 3, 2}, 2), number(2)};
  u.keys = concat({u.keys.slice(2, 0, 2), full({1, 1, 1, 2}, 100, DType::f64)}, 2);  // far from every query
  const Tensor q = drawn({1, 1, 3, 2}, 3);
  for (const double theta : {0.0, 0.5}) {
    const Numbers keys(nn::adapt_keys(u, q, {1, number(theta)}).keys), first(u.keys), queries(q);
    const auto s = logits(u, q, {}, 0, 0);
    for (int64_t j = 0; j < 2; ++j)
      for (int64_t c = 0; c < 2; ++c) {
        double above = theta * first(0, 0, j, c), below = theta;
        for (int64_t i = 0; i < 3; ++i) {
          const double w = std::exp(s[size_t(i)][size_t(j)] - log_sum_exp(s[size_t(i)]));
          above += 2 * w * queries(0, 0, i, c);
          below += 2 * w;
        }
        CHECK(keys(0, 0, j, c) == doctest::Approx(above / below).epsilon(1e-12));
      }
    for (int64_t c = 0; c < 2; ++c) CHECK(keys(0, 0, 2, c) == 100);
  }
}

TEST_CASE("the published layer's refreshed magnitude prior is another update") {
  GaussianUnits u{drawn({1, 1, 8, 3}, 1), drawn({1, 1, 8, 3}, 2), number(1)};
  u.log_prior = nn::magnitude_prior(u.keys, u.alpha);
  const Tensor q = drawn({1, 1, 8, 3}, 3);
  const nn::KeyAdaptation frozen{2, number(1.0)}, refreshed{2, number(1.0), nn::PriorCentre::fixed, true};
  // By hand: dot products with the new keys in the second iteration.
  Tensor keys = u.keys;
  for (int t = 0; t < 2; ++t) {
    const Tensor w = softmax(matmul(q, keys.transpose(-1, -2)));
    keys = (u.keys + matmul(w.transpose(-1, -2), q)) / (sum(w, {2}, true).transpose(-1, -2) + 1.0);
  }
  CHECK(largest_difference(nn::adapt_keys(u, q, refreshed).keys, keys) < 1e-12);
  CHECK(largest_difference(nn::adapt_keys(u, q, frozen).keys, keys) > 1e-3);
}

TEST_CASE("value propagation is EM: the penalised likelihood of known values never falls") {
  const Shape shape = {1, 2, 24, 6}, of_values = {1, 2, 24, 2};
  const Tensor q = drawn({1, 2, 5, 6}, 3), v = drawn({1, 2, 5, 2}, 4);
  for (const double beta : {0.5, 5.0, 50.0}) {
    GaussianUnits u{drawn(shape, 1), drawn(of_values, 2), number(1.3), number(beta)};
    const Tensor known = full({1, 1, 5}, 1, DType::f64);
    const double theta = 0.7;
    nn::ValuePropagation how{1, number(theta), number(beta)};
    double before = log_likelihood(u, q, v);
    for (int t = 1; t <= 50; ++t) {
      how.iterations = t;
      const GaussianUnits now = nn::propagate_values(u, q, v, known, how);
      const double after = log_likelihood(now, q, v) - theta / 2 * squared_distance(now.values, u.values);
      CHECK(after >= before - 1e-9);
      if (t == 1) CHECK(after > before);
      before = after;
    }
  }
}

TEST_CASE("value propagation: rows that fill up the tensor change nothing") {
  const Tensor q = drawn({2, 1, 3, 4}, 3), v = drawn({2, 1, 3, 2}, 4);
  const GaussianUnits u{drawn({2, 1, 9, 4}, 1), drawn({2, 1, 9, 2}, 2), number(1)};
  // The first picture has two known values, the second none.
  const Tensor known = from_vector(std::vector<double>{1, 1, 0, 0, 0, 0}, {2, 1, 3});
  const nn::ValuePropagation how{3, number(0.1), number(2.0)};
  const Tensor values = nn::propagate_values(u, q, v, known, how).values;
  CHECK(largest_difference(values.slice(0, 1, 2), u.values.slice(0, 1, 2)) == 0);
  GaussianUnits first = u;
  for (Tensor* t : {&first.keys, &first.values}) *t = t->slice(0, 0, 1);
  const Tensor two =
      nn::propagate_values(first, q.slice(0, 0, 1).slice(2, 0, 2), v.slice(0, 0, 1).slice(2, 0, 2),
                           full({1, 1, 2}, 1, DType::f64), how)
          .values;
  CHECK(largest_difference(values.slice(0, 0, 1), two) < 1e-14);
  CHECK(largest_difference(values.slice(0, 0, 1), u.values.slice(0, 0, 1)) > 0.01);
}

TEST_CASE("the most probable value: EM never falls, and for small beta it is the mean") {
  const Shape shape = {1, 2, 24, 6}, of_values = {1, 2, 24, 2};
  const Tensor q = drawn(shape, 3);
  for (const bool by_unit : {false, true}) {
    CAPTURE(by_unit);
    GaussianUnits u{drawn(shape, 1), drawn(of_values, 2, DType::f64, -3, 3), number(1.3), number(2)};
    if (by_unit) u.beta = drawn({1, 2, 24}, 5, DType::f64, 0.5, 4);
    double before = log_likelihood(u, q, nn::expected_values(u, q));
    for (int t = 1; t <= 50; ++t) {
      const double after = log_likelihood(u, q, nn::infer_values(u, q, t));
      CHECK(after >= before - 1e-9);
      if (t == 1) CHECK(after > before);
      before = after;
    }
  }
  for (const double beta : {1e-1, 1e-2, 1e-3}) {
    const GaussianUnits u{drawn(shape, 1), drawn(of_values, 2), number(1.3), number(beta)};
    const double off = largest_difference(nn::infer_values(u, q, 50), nn::expected_values(u, q));
    CHECK(off <= 5 * beta);
    CHECK(off > 0);
  }
}

TEST_CASE("probabilistic attention: gradients through three key and two value iterations") {
  const Shape of_units = {1, 2, 5};
  const auto f = [](const std::vector<Tensor>& in) {
    GaussianUnits u{in[1], in[2], in[3], in[4], in[5]};
    u.normalised = true;
    u = nn::adapt_keys(u, in[0], {3, in[6]});
    const Tensor clicked = in[0].slice(2, 1, 3);
    u = nn::propagate_values(u, clicked, in[7], full({1, 1, 2}, 1, in[7].dtype()), {2, in[8], in[9]});
    return nn::infer_values(u, in[0], 1);
  };
  const auto precisions = [&](const Shape& shape, int stream) {
    return drawn(shape, stream, DType::f64, 0.4, 1.5);
  };
  const Tensor q = drawn({1, 2, 5, 3}, 1), k = drawn({1, 2, 5, 3}, 2), mu = drawn({1, 2, 5, 2}, 3),
               v = drawn({1, 2, 2, 2}, 4), prior = drawn(of_units, 5);
  for (const Shape& shape : {Shape{1}, of_units}) {
    const GradientReport report =
        check_gradient(f, {q, k, mu, precisions(shape, 6), precisions(shape, 7), prior, precisions(shape, 8),
                           v, precisions(shape, 9), precisions(shape, 10)});
    CHECK_MESSAGE(report.ok, report.message);
  }
}

TEST_CASE("the kind: T = 0 with the magnitude prior is the plain operator bit for bit") {
  const auto layer = [](const std::string& kind, const nn::KindOptions& options) {
    nn::AttentionConfig config;
    config.kind = kind;
    config.options = options;
    auto made = std::make_unique<nn::Attention>(12, 3, config);
    for (const auto& p : made->parameters())
      copy_values(*p.tensor, uniform(p.tensor->shape(), -0.5, 0.5, 3, uint64_t(p.tensor->numel())));
    return made;
  };
  const Tensor x = uniform({2, 9, 12}, -2, 2, 4, 4);
  NoGrad off;
  const Tensor plain = layer("softmax", {})->forward(x);
  CHECK(largest_difference(layer("probabilistic", {{"prior", std::string("magnitude")}})->forward(x),
                           plain) == 0);
  for (const nn::KindOptions& options :
       {nn::KindOptions{},
        {{"prior", std::string("learned")}},
        {{"prior", std::string("magnitude")}, {"key-iterations", int64_t(2)}}}) {
    const auto other = layer("probabilistic", options);
    const Tensor y = other->forward(x);
    CHECK(largest_difference(y, plain) > 1e-3);
    // The stored probabilities give the same mixture: dropout of rate 0 < p takes that way.
    const nn::AttentionTensors t = other->tensors(x);
    CHECK(largest_difference(matmul(t.probabilities, t.values), t.mixed) < 1e-12);
    // bf16 projections are mixed in f32.
    const Tensor rough = other->forward(x.to(DType::bf16));
    CHECK(rough.dtype() == DType::bf16);
    CHECK(largest_difference(rough, y) < 0.15);
  }
}

TEST_CASE("probabilistic attention: what is missing is named") {
  const Tensor q = drawn({1, 1, 3, 2}, 1);
  const GaussianUnits u{q, q, number(1)};
  CHECK_THROWS_WITH(nn::infer_values(u, q, 1), doctest::Contains("beta"));
  CHECK_THROWS_WITH(nn::posterior(u, q, q), doctest::Contains("beta"));
  CHECK_THROWS_AS(nn::adapt_keys(u, q, {}), Error);
  CHECK_THROWS_AS(nn::propagate_values(u, q, q, full({1, 1, 3}, 1, DType::f64), {}), Error);
  CHECK_THROWS_WITH(nn::posterior(u, drawn({1, 1, 3, 4}, 2)), doctest::Contains("need [batch"));
}

TEST_CASE("the kind: options that do not go together") {
  const auto make = [](bool causal, const nn::KindOptions& options) {
    return nn::attention_kind("probabilistic").make({12, 3, 9, causal}, options);
  };
  CHECK_THROWS_WITH(make(true, {{"key-iterations", int64_t(1)}}), doctest::Contains("--key-iterations 0"));
  CHECK_THROWS_WITH(make(false, {{"refresh-prior", true}}), doctest::Contains("--prior magnitude"));
}
