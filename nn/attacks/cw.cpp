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
  struct Options : CwOptions {
    enum class Preset { published, usual } preset = Preset::published;
  };

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("preset", o.preset, "defaults of the others");
    f("target", o.target, "class that has to win");
    f("confidence", o.confidence, "logits by which it, or another class than the label, has to win",
      Range{0, 1e6});
    f("lr", o.lr, "Adam's learning rate (usual: 0.01)", above(0, 1e3));
    f("steps", o.steps, "steps of a search (usual: 1000)", Range{1, 1e6});
    f("searches", o.searches, "searches for c (usual: 9)", Range{1, 100});
    f("c", o.c, "the first weight of the margin (usual: 0.001)", above(0, 1e10));
  }
  static void apply_preset(Options& o) {
    static_cast<CwOptions&>(o) = o.preset == Options::Preset::usual ? usual_cw : CwOptions{};
  }
  static Tensor run(const Victim& v, const Tensor& x, double, const Options& o) { return cw(v, x, o); }
  static std::string describe(const Options& o) {
    const bool targeted = o.target != CwOptions::Target::none;
    return fmt::format("{} steps, {} searches, lr {}, c {}, confidence {}{}", o.steps, o.searches, o.lr, o.c,
                       o.confidence, targeted ? fmt::format(", target {}", choice_name(o.target)) : "");
  }
};
inline std::vector<Choice<Cw::Options::Preset>> choices_of(Cw::Options::Preset) {
  using Preset = Cw::Options::Preset;
  return {{"published", Preset::published, "of the RPC scripts"},
          {"usual", Preset::usual, "of Carlini and Wagner"}};
}
PURSUIT_ATTACK(Cw)

// The class of every picture that has to win; with Target::none those that have to lose.
std::vector<int64_t> aims_of(const Victim& v, const Tensor& x, CwOptions::Target target) {
  std::vector<int64_t> aims;
  for (const double label : v.labels.to_vector()) aims.push_back(int64_t(label));
  if (target == CwOptions::Target::none || target == CwOptions::Target::own) return aims;
  const NoGrad off;
  const Tensor logits = v.logits(x).to(DType::f32).to(cpu).contiguous();
  const int64_t classes = logits.size(1);
  for (size_t b = 0; b < aims.size(); ++b) {
    const float* const row = logits.data<float>() + int64_t(b) * classes;
    const int64_t label = aims[b];
    aims[b] = margin_of(row, classes, label).other;
    for (int64_t k = 0; k < classes && target == CwOptions::Target::least; ++k)
      if (k != label && row[k] < row[aims[b]]) aims[b] = k;
  }
  return aims;
}

}  // namespace

Tensor cw(const Victim& v, const Tensor& x, const CwOptions& o) {
  const int64_t batch = x.size(0);
  const bool targeted = o.target != CwOptions::Target::none;
  const std::vector<int64_t> aims = aims_of(v, x, o.target);
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
          const Margin m = margin_of(host.data<float>() + b * classes, classes, aims[size_t(b)]);
          if ((targeted ? m.value : -m.value) > o.confidence) {
            s.success = true;
            if (lengths[size_t(b)] < s.shortest) {
              s.shortest = lengths[size_t(b)];
              copy_values(best.slice(0, b, b + 1), adv.slice(0, b, b + 1));
            }
          } else {
            const float weight = float(targeted ? -s.c : s.c);
            to[size_t(b * classes + aims[size_t(b)])] = weight;
            to[size_t(b * classes + m.other)] = -weight;
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
