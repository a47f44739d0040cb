#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/ops.h"
#include "nn/attacks/parts.h"

// Attacks on the margin: the label's logit minus the largest other logit. It is negative where the model is
// wrong.
namespace pursuit::attacks {

namespace {

struct Margin {
  double value = 0;
  int64_t other = 0;  // the class of the largest other logit
};

Margin margin_of(const float* logits, int64_t classes, int64_t label) {
  if (classes < 2) fail("attack", "a margin needs at least two classes");
  int64_t other = label == 0 ? 1 : 0;
  for (int64_t j = 0; j < classes; ++j)
    if (j != label && logits[j] > logits[other]) other = j;
  return {double(logits[label]) - double(logits[other]), other};
}

// Adam (Kingma & Ba 2015) with the usual betas.
class Adam {
 public:
  explicit Adam(double lr) : lr_(lr) {}
  Tensor step(const Tensor& x, const Tensor& g) {
    ++t_;
    m_ = m_.defined() ? m_ * 0.9 + g * 0.1 : g * 0.1;
    v_ = v_.defined() ? v_ * 0.999 + square(g) * 0.001 : square(g) * 0.001;
    const Tensor m = m_ / (1 - std::pow(0.9, t_)), v = v_ / (1 - std::pow(0.999, t_));
    return x - m / (sqrt(v) + 1e-8) * lr_;
  }

 private:
  double lr_;
  int t_ = 0;
  Tensor m_, v_;
};

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

// The state of cw's search over c for one picture.
struct Search {
  double c = 0, low = 0, high = std::numeric_limits<double>::infinity();
  double shortest = std::numeric_limits<double>::infinity();  // squared l2 of the best so far
  bool success = false;                                       // with this c

  void next() {
    (success ? high : low) = c;
    c = std::isinf(high) ? c * 10 : (low + high) / 2;
    success = false;
  }
};

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

Tensor cw(const Victim& v, const Tensor& x, const CwOptions& o) {
  const int64_t batch = x.size(0);
  const std::vector<double> labels = v.labels.to_vector();
  std::vector<Search> searches(size_t(batch), Search{.c = o.c});
  const Tensor best = x * 1.0;
  // The w for which x' = x, kept away from 0 and 1, where the gradient of tanh vanishes.
  const Tensor t = (x * 2.0 - 1.0) * 0.999999;
  const Tensor start = v.clip ? log((t + 1.0) / affine(t, -1, 1)) * 0.5 : x;

  for (int round = 0; round < o.searches; ++round) {
    Tensor w = start;
    Adam adam(o.lr);
    for (int i = 0; i < o.steps; ++i) {
      const Tensor adv = v.clip ? tanh(w) * 0.5 + 0.5 : w;
      const Tensor change = adv - x;
      const std::vector<double> lengths = sum(square(change), {1, 2, 3}).to_vector();
      const Tensor slope = input_gradient(v, adv, [&](const Tensor& logits) {
        const Tensor host = logits.to(cpu).contiguous();
        const int64_t classes = host.size(1);
        std::vector<float> to(size_t(batch * classes));
        for (int64_t b = 0; b < batch; ++b) {
          Search& s = searches[size_t(b)];
          const int64_t label = int64_t(labels[size_t(b)]);
          const Margin m = margin_of(host.data<float>() + b * classes, classes, label);
          if (m.value + o.confidence < 0) {
            s.success = true;
            if (lengths[size_t(b)] < s.shortest) {
              s.shortest = lengths[size_t(b)];
              copy_values(best.slice(0, b, b + 1), adv.slice(0, b, b + 1));
            }
          } else {
            to[size_t(b * classes + label)] = float(s.c);
            to[size_t(b * classes + m.other)] = -float(s.c);
          }
        }
        return from_vector(to, host.shape()).to(logits.device());
      });
      Tensor g = change * 2.0 + slope;
      if (v.clip) g = g * affine(square(adv * 2.0 - 1.0), -0.5, 0.5);
      w = adam.step(w, g);
    }
    for (Search& s : searches) s.next();
  }
  return best;
}

}  // namespace pursuit::attacks
