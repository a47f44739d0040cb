#include <fmt/format.h>

#include "engine/ops.h"
#include "nn/attacks/parts.h"
#include "nn/attacks/registry.h"

namespace pursuit::attacks {

namespace {

Tensor column(const std::vector<float>& values, const Tensor& like) {
  return from_vector(values, {int64_t(values.size()), 1, 1, 1}).to(like.dtype()).to(like.device());
}

// x + delta signs, then x - delta signs: [2 S, C, H, W] for x [1, C, H, W] and signs [S, C, H, W].
Tensor on_both_sides(const Tensor& x, const Tensor& signs, double delta) {
  const Tensor change = signs * delta;
  return concat({x + change, x - change}, 0);
}

// SPSA of one picture x [1, C, H, W], the only one of v.
Tensor spsa_of_one(const Victim& v, const Tensor& x, int64_t label, const SpsaOptions& o) {
  const auto project = [&](const Tensor& change) {
    const Tensor inside = clamp(change, -o.eps, o.eps);
    return v.clip ? clamp(x + inside, 0, 1) - x : inside;
  };
  const Shape drawn{o.samples, x.size(1), x.size(2), x.size(3)};
  Tensor change = project(uniform_like(v, x, -o.eps, o.eps));
  Adam adam(o.lr);
  for (int i = 0; i < o.steps; ++i) {
    const uint64_t stream = stream_of(v, 0, streams::attack::spsa_steps, uint64_t(i));
    const Tensor signs = sign(uniform(drawn, -1, 1, v.seed, stream, x.dtype(), x.device()));
    const Tensor here = x + change;
    const Tensor logits = v.logits(on_both_sides(here, signs, o.delta)).to(DType::f32).to(cpu).contiguous();
    const int64_t classes = logits.size(1);
    const float* row = logits.data<float>();
    std::vector<float> weights(static_cast<size_t>(o.samples));
    for (int64_t s = 0; s < o.samples; ++s) {
      const double plus = margin_of(row + s * classes, classes, label).value;
      const double minus = margin_of(row + (o.samples + s) * classes, classes, label).value;
      weights[size_t(s)] = float((plus - minus) / (2 * o.delta * o.samples));
    }
    change = project(adam.step(change, sum(signs * column(weights, x), {0}, true)));
  }
  return x + change;
}

struct Spsa {
  static constexpr AttackTraits traits = {.name = "spsa", .one_at_a_time = true, .memory_option = "samples"};
  using Options = SpsaOptions;

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("eps", o.eps, "largest change of an entry", above(0, 1e3));
    f("steps", o.steps, "steps", Range{1, max_spsa_steps});
    f("lr", o.lr, "Adam's learning rate", above(0, 1e3));
    f("delta", o.delta, "distance of the points that are compared", above(0, 1e3));
    f("samples", o.samples, "directions per step", Range{1, 1e6});
  }
  static double budget(const Options& o) { return o.eps; }
  static Tensor run(const Victim& v, const Tensor& x, double, const Options& o) { return spsa(v, x, o); }
  static std::string describe(const Options& o) {
    return fmt::format("{} steps, {} samples, lr {}, delta {}", o.steps, o.samples, o.lr, o.delta);
  }
  static void on_shapes(const Logits& logits, const Tensor& x, const Options& o) {
    spsa_on_shapes(logits, x, o.samples);
  }
};
PURSUIT_ATTACK(Spsa)

}  // namespace

void spsa_on_shapes(const Logits& logits, const Tensor& x, int samples) {
  logits(on_both_sides(x, empty({samples, x.size(1), x.size(2), x.size(3)}, x.dtype(), x.device()), 1));
}

Tensor spsa(const Victim& v, const Tensor& x, const SpsaOptions& o) {
  if (o.samples < 1 || o.steps < 0 || o.steps > max_spsa_steps || !(o.delta > 0))
    fail("attack", "spsa needs at least one sample, 0 to " + std::to_string(max_spsa_steps) +
                       " steps and a delta above 0");
  NoGrad off;
  const std::vector<double> labels = v.labels.to_vector();
  std::vector<Tensor> done;
  Victim one = v;
  for (int64_t b = 0; b < x.size(0); ++b) {
    one.pictures = {v.number(b)};
    done.push_back(spsa_of_one(one, x.slice(0, b, b + 1), int64_t(labels[size_t(b)]), o).select(0, 0));
  }
  return stack(done, 0);
}

}  // namespace pursuit::attacks
