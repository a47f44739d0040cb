#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "engine/ops.h"
#include "nn/attacks/parts.h"
#include "nn/attacks/registry.h"

namespace pursuit::attacks {

namespace {

// The state of cw's search over c for one picture.
struct CwSearch {
  double c = 0, low = 0, high = std::numeric_limits<double>::infinity();
  double shortest = std::numeric_limits<double>::infinity();  // squared l2 of the best so far
  bool success = false;                                       // with this c

  void next() {
    (success ? high : low) = c;
    c = std::isinf(high) ? c * 10 : (low + high) / 2;
    success = false;
  }
};

struct Cw {
  static constexpr AttackTraits traits = {.name = "cw"};
  using Options = CwOptions;

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("confidence", o.confidence, "logits by which another class has to win", Range{0, 1e6});
    f("lr", o.lr, "Adam's learning rate", above(0, 1e3));
    f("steps", o.steps, "steps of a search", Range{1, 1e6});
    f("searches", o.searches, "searches for c", Range{1, 100});
    f("c", o.c, "the first weight of the margin", above(0, 1e10));
  }
  static Tensor run(const Victim& v, const Tensor& x, double, const Options& o) { return cw(v, x, o); }
  static std::string describe(const Options& o) {
    return fmt::format("{} steps, {} searches, lr {}, c {}, confidence {}", o.steps, o.searches, o.lr, o.c,
                       o.confidence);
  }
};
PURSUIT_ATTACK(Cw)

}  // namespace

Tensor cw(const Victim& v, const Tensor& x, const CwOptions& o) {
  const int64_t batch = x.size(0);
  const std::vector<double> labels = v.labels.to_vector();
  std::vector<CwSearch> searches(size_t(batch), CwSearch{.c = o.c});
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
          CwSearch& s = searches[size_t(b)];
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
    for (CwSearch& s : searches) s.next();
  }
  return best;
}

}  // namespace pursuit::attacks
