#include "nn/attention/probabilistic.h"

#include <cmath>

#include "engine/ops.h"
#include "nn/attention/functions.h"
#include "nn/attention/kind.h"

namespace pursuit::nn {

namespace {

// Of one number a unit, or one for all, as a factor of [B, H, N, D].
Tensor column(const Tensor& x) { return x.ndim() == 3 ? x.reshape({x.size(0), x.size(1), x.size(2), 1}) : x; }
bool is_shared(const Tensor& precision) { return precision.ndim() == 1; }

Tensor squared_norms(const Tensor& x) { return sum(square(x), {3}, true); }

Tensor ones_like_rows(const Tensor& x) {
  return full({x.size(0), x.size(1), x.size(2), 1}, 1, x.dtype(), x.device());
}

// For known values (`valued`) beta is needed too.
void check(const char* where, const GaussianUnits& u, const Tensor& q, bool valued) {
  require_defined(where, {&u.keys, &u.values, &u.alpha, &q});
  if (valued && !u.beta.defined()) fail(where, "known values need the precision beta of the units");
  if (u.keys.ndim() != 4 || q.ndim() != 4 || q.size(3) != u.keys.size(3) || u.values.ndim() != 4 ||
      u.values.size(2) != u.keys.size(2))
    fail(where, "got queries " + q.str() + ", keys " + u.keys.str() + " and values " + u.values.str() +
                    ", need [batch, heads, tokens, head_dim] of each");
  const Shape of_units = {u.keys.size(0), u.keys.size(1), u.keys.size(2)};
  for (const Tensor& t : {u.alpha, u.beta, u.log_prior})
    if (t.defined() && t.shape() != of_units && t.shape() != Shape{1})
      fail(where, "got precisions or a prior " + t.str() + ", need [1] or " + of_units.str());
}

// Rows whose inner products are the logits of (1), but for terms that are the same for all units.
struct Factors {
  Tensor queries, keys;  // [B, H, M, W] and [B, H, N, W]
};

Factors factors(const GaussianUnits& u, const Tensor& q, const Tensor& v) {
  const Tensor alpha = column(u.alpha);
  Tensor bias = alpha * squared_norms(u.keys) * -0.5;
  std::vector<Tensor> of_queries = {q, ones_like_rows(q)}, of_keys = {alpha * u.keys, {}};
  if (u.log_prior.defined()) bias = bias + column(u.log_prior);
  if (u.normalised) bias = bias + log(alpha) * (double(u.keys.size(3)) / 2);
  if (u.normalised && u.beta.defined()) bias = bias + log(column(u.beta)) * (double(u.values.size(3)) / 2);
  const auto add = [&](const Tensor& x, const Tensor& precision) {  // |x|^2 differs between units
    of_queries.push_back(squared_norms(x));
    of_keys.push_back(precision * -0.5);
  };
  if (!is_shared(u.alpha)) add(q, alpha);
  if (v.defined()) {
    const Tensor beta = column(u.beta);
    bias = bias - beta * squared_norms(u.values) * 0.5;
    of_queries.push_back(v);
    of_keys.push_back(beta * u.values);
    if (!is_shared(u.beta)) add(v, beta);
  }
  of_keys[1] = bias;
  return {concat(of_queries, 3), concat(of_keys, 3)};
}

// Packs rows of different widths, filled up with zeros.
Tensor pack_padded(std::vector<Tensor> parts) {
  int64_t width = 0;
  for (const Tensor& t : parts) width = std::max(width, t.size(3));
  for (Tensor& t : parts)
    if (t.size(3) < width)
      t = concat({t, zeros({t.size(0), t.size(1), t.size(2), width - t.size(3)}, t.dtype(), t.device())}, 3);
  return pack(parts);
}

// sum_j w_ij rows_j [B, H, N, E].
Tensor mean_by_posterior(const GaussianUnits& u, const Tensor& q, const Tensor& v, const Tensor& rows,
                         bool causal) {
  const Factors f = factors(u, q, v);
  const Tensor mixed = attention(pack_padded({f.queries, f.keys, rows}), {.scale = 1, .causal = causal});
  return split_heads(mixed, q.size(1)).slice(3, 0, rows.size(3));
}

// (theta centre + precision sums) / (theta + precision mass), as a step from the centre: exactly the centre
// where sums and mass are 0.
Tensor updated(const Tensor& centre, const Tensor& theta, const Tensor& precision, const Tensor& sums,
               const Tensor& mass) {
  constexpr double least = 1e-12;  // of the denominator, for theta = 0
  const Tensor below = clamp(column(theta) + column(precision) * mass, least, INFINITY);
  return centre + column(precision) * (sums - mass * centre) / below;
}

}  // namespace

Tensor magnitude_prior(const Tensor& means, const Tensor& precision) {
  return (column(precision) * squared_norms(means) * 0.5)
      .reshape({means.size(0), means.size(1), means.size(2)});
}

Tensor posterior(const GaussianUnits& units, const Tensor& q, const Tensor& v, bool causal) {
  check("posterior", units, q, v.defined());
  const Factors f = factors(units, q, v);
  return attention_weights(f.queries, f.keys, 1, causal);
}

Tensor expected_values(const GaussianUnits& units, const Tensor& q, const Tensor& v, bool causal) {
  check("expected_values", units, q, v.defined());
  return mean_by_posterior(units, q, v, units.values, causal);
}

GaussianUnits adapt_keys(const GaussianUnits& units, const Tensor& q, const KeyAdaptation& how) {
  check("adapt_keys", units, q, false);
  require_defined("adapt_keys", {&how.theta});
  const int64_t d = q.size(3);
  GaussianUnits now = units;
  for (int t = 0; t < how.iterations; ++t) {
    const Factors f = factors(now, q, {});
    // The first columns of the queries' rows are q and 1.
    const Tensor sums =
        split_heads(attention_transposed(pack({f.queries, f.keys, f.queries}), {.scale = 1}), q.size(1));
    const Tensor& centre = how.centre == PriorCentre::fixed ? units.keys : now.keys;
    now.keys = updated(centre, how.theta, units.alpha, sums.slice(3, 0, d), sums.slice(3, d, d + 1));
    if (how.refresh_prior) now.log_prior = magnitude_prior(now.keys, units.alpha);
  }
  return now;
}

GaussianUnits propagate_values(const GaussianUnits& units, const Tensor& q, const Tensor& v,
                               const Tensor& known, const ValuePropagation& how) {
  check("propagate_values", units, q, false);
  require_defined("propagate_values", {&v, &known, &how.theta, &how.beta});
  const Tensor a = known.reshape({known.size(0), known.size(1), known.size(2), 1});
  GaussianUnits now = units;
  for (int t = 0; t < how.iterations; ++t) {
    const Tensor w = posterior(now, q, units.beta.defined() ? v : Tensor()) * a;  // [B, H, A, N]
    const Tensor by_unit = w.transpose(-1, -2);
    const Tensor& centre = how.centre == PriorCentre::fixed ? units.values : now.values;
    now.values = updated(centre, how.theta, how.beta, matmul(by_unit, v), sum(by_unit, {3}, true));
  }
  return now;
}

Tensor infer_values(const GaussianUnits& units, const Tensor& q, int iterations) {
  check("infer_values", units, q, true);
  Tensor v = expected_values(units, q);
  if (is_shared(units.beta)) {
    for (int t = 0; t < iterations; ++t) v = expected_values(units, q, v);
    return v;
  }
  const int64_t width = units.values.size(3);
  const Tensor beta = column(units.beta), rows = concat({beta * units.values, beta}, 3);
  for (int t = 0; t < iterations; ++t) {
    const Tensor both = mean_by_posterior(units, q, v, rows, false);
    v = both.slice(3, 0, width) / both.slice(3, width, width + 1);
  }
  return v;
}

PositionalValues positional_values(const GaussianUnits& units, const Tensor& q, const PositionTables& tables,
                                   bool magnitude) {
  check("positional_values", units, q, false);
  const int64_t batch = q.size(0), heads = q.size(1), n = q.size(2);
  // Row i of x [B, H, N, D] times matrix i of [N, D or N, N]: [B, H, N, N] or [B, H, N, D].
  const auto by_place = [&](const Tensor& x, const Tensor& matrices) {
    const Tensor rows = x.permute({2, 0, 1, 3}).reshape({n, batch * heads, x.size(3)});
    const Tensor y = matmul(rows, matrices);
    return y.reshape({n, batch, heads, y.size(2)}).permute({1, 2, 0, 3});
  };
  const Tensor dots = matmul(q, units.keys.transpose(-1, -2)) +
                      by_place(q, tables.queries.transpose(-1, -2)) +
                      by_place(units.keys, tables.keys.transpose(-1, -2)).transpose(-1, -2);
  Tensor logits = units.alpha * dots;
  if (!magnitude) {
    const auto norms = [&](const Tensor& table) { return sum(square(table), {2}); };  // [N, N]
    const Tensor of_keys = squared_norms(units.keys).transpose(-1, -2);               // [B, H, 1, N]
    logits = logits - units.alpha * 0.5 *
                          (of_keys * 2.0 + norms(tables.queries) + norms(tables.keys).transpose(-1, -2));
    if (units.log_prior.defined()) logits = logits + column(units.log_prior).transpose(-1, -2);
  }
  const Tensor w = softmax(logits);
  return {matmul(w, units.values), by_place(w, tables.values)};
}

namespace {

// Projected keys and values are the means of the units, all with one precision alpha.
struct Probabilistic : AttentionKind {
  static constexpr KindTraits traits = {
      .name = "probabilistic", .title = "probabilistic attention", .exponential = false};
  struct Options {
    UnitPrior prior = UnitPrior::uniform;
    double alpha = 0;
    int key_iterations = 0;
    double theta = 1;
    PriorCentre centre = PriorCentre::fixed;
    bool refresh_prior = false;
  };

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("prior", o.prior, "prior of the units");
    f("alpha", o.alpha, "precision of queries around keys (0: 1 / sqrt(D))", Range{0, 1e6});
    f("key-iterations", o.key_iterations, "EM iterations that adapt the keys to the queries", Range{0, 1000});
    f("theta", o.theta, "precision of the adapted keys' prior", Range{0, 1e6});
    f("prior-centre", o.centre, "centre of the adapted keys' prior");
    f("refresh-prior", o.refresh_prior, "magnitude prior of the adapted keys, not of the projected ones");
  }

  Probabilistic(const AttentionLayer& layer, const Options& o) : AttentionKind(layer), options(o) {
    if (layer.causal && o.key_iterations > 0)
      fail("attention",
           "probabilistic attention adapts keys to later tokens too and cannot be causal; use "
           "--key-iterations 0");
    if (o.refresh_prior && o.prior != UnitPrior::magnitude)
      fail("attention", "--refresh-prior needs --prior magnitude");
    const int64_t head_dim = layer.dim / layer.heads;
    if (options.alpha == 0) options.alpha = 1 / std::sqrt(double(head_dim));
    if (o.prior == UnitPrior::learned) add_parameter("prior.weight", weight, {layer.heads, head_dim});
  }

  Tensor mix(const Tensor& packed, const Tensor&) const override {
    if (options.prior == UnitPrior::magnitude && options.key_iterations == 0)
      return attention(packed, {.scale = options.alpha, .causal = layer().causal});
    const Tensor wide = packed.to(compute_type(packed.dtype()));
    return merge_heads(expected_values(units(wide), part(wide, 0), {}, layer().causal)).to(packed.dtype());
  }

  Tensor probabilities(const Tensor& packed, int64_t queries) const override {
    const Tensor wide = packed.to(compute_type(packed.dtype()));
    return posterior(units(wide), part(wide, 0), {}, layer().causal).slice(2, 0, queries).to(packed.dtype());
  }

  std::pair<Tensor, Tensor> queries_and_keys(const Tensor& packed) const override {
    const Tensor wide = packed.to(compute_type(packed.dtype()));
    return {part(packed, 0), units(wide).keys.to(packed.dtype())};
  }

  GaussianUnits units(const Tensor& packed) const {
    const auto number = [&](double x) { return full({1}, x, packed.dtype(), packed.device()); };
    GaussianUnits u{part(packed, 1), part(packed, 2), number(options.alpha)};
    if (options.prior == UnitPrior::magnitude) u.log_prior = magnitude_prior(u.keys, u.alpha);
    if (options.prior == UnitPrior::learned) {
      const Tensor w = weight.to(packed.dtype()).reshape({weight.size(0), weight.size(1), 1});
      u.log_prior = matmul(u.keys, w).reshape({u.keys.size(0), u.keys.size(1), u.keys.size(2)});
    }
    if (options.key_iterations == 0) return u;
    return adapt_keys(u, part(packed, 0),
                      {options.key_iterations, number(options.theta), options.centre, options.refresh_prior});
  }

  Options options;
  Tensor weight;
};
PURSUIT_ATTENTION_KIND(Probabilistic)

}  // namespace

}  // namespace pursuit::nn
