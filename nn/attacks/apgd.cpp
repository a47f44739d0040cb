#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "nn/attacks/registry.h"
#include "nn/attacks/search.h"

namespace pursuit::attacks {

namespace {

// The classes with the highest logits, in order, so many.
std::vector<int64_t> highest(const Scores& s, size_t count) {
  std::vector<int64_t> best;
  for (int64_t c = 0; c < s.classes; ++c) {
    auto at = best.begin();
    while (at != best.end() && s.logits[*at] >= s.logits[c]) ++at;
    best.insert(at, c);
    if (best.size() > count) best.pop_back();
  }
  return best;
}

// -(z_y - z_other) / span with span = sum_c weight_c z_c: its value, and its slope by the quotient rule.
double ratio(const Scores& s, int64_t other, const std::vector<std::pair<int64_t, double>>& weights,
             float* slope) {
  double span = 1e-12;
  for (const auto& [c, weight] : weights) span += weight * s.logits[c];
  const double value = -(double(s.logits[s.label]) - s.logits[other]) / span;
  slope[s.label] -= float(1 / span);
  slope[other] += float(1 / span);
  for (const auto& [c, weight] : weights) slope[c] -= float(value * weight / span);
  return value;
}

double dlr_of(const Scores& s, float* slope) {
  const std::vector<int64_t> top = highest(s, 3);
  return ratio(s, top[0] == s.label ? top[1] : top[0], {{top[0], 1}, {top[2], -1}}, slope);
}

double targeted_dlr_of(const Scores& s, int64_t target, float* slope) {
  const std::vector<int64_t> top = highest(s, 4);
  return ratio(s, target, {{top[0], 1}, {top[2], -0.5}, {top[3], -0.5}}, slope);
}

// A picture on its way.
struct Climber {
  int64_t picture = 0, target = -1;
  Row at, before, best, slope, best_slope;
  double step = 0, loss = 0, best_loss = 0, best_at_check = 0;
  int rises = 0;                // since the last checkpoint
  bool halved_at_check = true;  // so that the first checkpoint looks at the rises alone
};

// Steps between checkpoints.
class Checkpoints {
 public:
  explicit Checkpoints(int steps)
      : period_(std::max(int(0.22 * steps), 1)),
        shorter_(std::max(int(0.03 * steps), 1)),
        shortest_(std::max(int(0.06 * steps), 1)) {}
  int period() const { return period_; }
  bool reached() {
    if (++since_ < period_) return false;
    since_ = 0;
    return true;
  }
  void next() { period_ = std::max(period_ - shorter_, shortest_); }

 private:
  int period_, shorter_, shortest_, since_ = 0;
};

// x + step * direction of the slope, projected; then the same with momentum.
void advance(const Search& search, Climber& c, Norm norm, double eps, double share) {
  const double size = norm == Norm::linf ? 1 : length(c.slope, norm) + 1e-12;
  Row moved = c.at;
  for (size_t i = 0; i < moved.size(); ++i) {
    const double direction =
        norm == Norm::linf ? double((c.slope[i] > 0) - (c.slope[i] < 0)) : c.slope[i] / size;
    moved[i] += float(c.step * direction);
  }
  search.project(moved, c.picture, norm, eps);
  for (size_t i = 0; i < moved.size(); ++i)
    moved[i] =
        float(c.at[i] + share * (double(moved[i]) - c.at[i]) + (1 - share) * (double(c.at[i]) - c.before[i]));
  search.project(moved, c.picture, norm, eps);
  c.before = std::exchange(c.at, std::move(moved));
}

void check(Climber& c, int period, double rho) {
  const bool halve = c.rises <= rho * period || (!c.halved_at_check && c.best_at_check >= c.best_loss);
  if (halve) {
    c.step /= 2;
    c.at = c.best;
    c.slope = c.best_slope;
  }
  c.halved_at_check = halve;
  c.best_at_check = c.best_loss;
  c.rises = 0;
}

// One run from new starts, of the pictures that are still right.
void run(Search& search, double eps, const ApgdOptions& o, int number, int target) {
  const std::vector<int64_t> right = search.right();
  std::vector<Climber> climbers(right.size());
  for_each_picture(right.size(), [&](size_t i) {
    Climber& c = climbers[i];
    c.picture = right[i];
    if (target >= 0) c.target = search.other_classes(c.picture)[size_t(target)];
    c.at = c.before = search.start(c.picture, o.norm, eps, uint64_t(number));
    c.step = 2 * eps;
  });
  Checkpoints checkpoints(o.steps);
  for (int step = 0; step <= o.steps && !climbers.empty(); ++step) {
    std::vector<int64_t> pictures(climbers.size());
    std::vector<Row> points(climbers.size());
    for_each_picture(climbers.size(), [&](size_t i) {
      Climber& c = climbers[i];
      if (step > 0) advance(search, c, o.norm, eps, step > 1 ? 0.75 : 1);
      pictures[i] = c.picture;
      points[i] = c.at;
    });
    std::vector<Row> slopes = search.climb(pictures, points, [&](int64_t i, const Scores& s, float* slope) {
      Climber& c = climbers[size_t(i)];
      const double loss = c.target >= 0                      ? targeted_dlr_of(s, c.target, slope)
                          : o.loss == ApgdOptions::Loss::dlr ? dlr_of(s, slope)
                                                             : cross_entropy(s, slope);
      c.rises += step > 0 && loss > c.loss;
      c.loss = loss;
      if (s.margin() < 0) search.found(c.picture, c.at);
    });
    const bool checked = step > 0 && checkpoints.reached();
    for_each_picture(climbers.size(), [&](size_t i) {
      Climber& c = climbers[i];
      c.slope = std::move(slopes[i]);
      if (step == 0 || c.loss > c.best_loss) {
        c.best = c.at;
        c.best_slope = c.slope;
        c.best_loss = c.loss;
      }
      if (step == 0) c.best_at_check = c.best_loss;
      if (checked) check(c, checkpoints.period(), o.rho);
    });
    if (checked) checkpoints.next();
    std::erase_if(climbers, [&](const Climber& c) { return !search.is_right(c.picture); });
  }
}

template <bool targeted, Norm ball> struct Apgd {
  static constexpr AttackTraits traits = {.name = targeted ? (ball == Norm::linf ? "apgd-t" : "apgd-t-l2")
                                                           : (ball == Norm::linf ? "apgd-ce" : "apgd-ce-l2"),
                                          .norm = ball};
  struct Options : ApgdOptions {
    Options() {
      norm = ball;
      targets = targeted ? 9 : 0;
    }
  };

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("steps", o.steps, "steps", Range{1, 1e5});
    f("restarts", o.restarts, "random starts", Range{1, 1000});
    if constexpr (targeted)
      f("targets", o.targets, "classes aimed at, of the highest logits", Range{1, 1e4});
    else
      f("loss", o.loss, "");
  }
  static Tensor run(const Victim& v, const Tensor& x, double eps, const Options& o) {
    return apgd(v, x, eps, o);
  }
  static std::string describe(const Options& o, int64_t classes) {
    return fmt::format("{} steps, {} start{}{}", o.steps, o.restarts, o.restarts == 1 ? "" : "s",
                       targeted ? fmt::format(", {} targets", possible_targets(o.targets, classes))
                       : o.loss == ApgdOptions::Loss::dlr ? ", dlr"
                                                          : "");
  }
};
using ApgdCe = Apgd<false, Norm::linf>;
using ApgdT = Apgd<true, Norm::linf>;
using ApgdCeL2 = Apgd<false, Norm::l2>;
using ApgdTL2 = Apgd<true, Norm::l2>;
PURSUIT_ATTACK(ApgdCe)
PURSUIT_ATTACK(ApgdT)
PURSUIT_ATTACK(ApgdCeL2)
PURSUIT_ATTACK(ApgdTL2)

}  // namespace

Tensor apgd(const Victim& victim, const Tensor& x, double eps, const ApgdOptions& o) {
  Search search(victim, x);
  if (search.size() == 0) return x;
  const int64_t needed = o.targets > 0 ? 4 : o.loss == ApgdOptions::Loss::dlr ? 3 : 2;
  if (search.classes() < needed)
    fail("attack", "this loss of apgd compares the " + std::to_string(needed) +
                       " highest logits, the model has " + std::to_string(search.classes()) +
                       "; apgd-ce, fab-t and square need only two");
  const int64_t targets = possible_targets(o.targets, search.classes());
  check_starts(std::max<int64_t>(targets, 1) * o.restarts);
  int number = 0;
  for (int restart = 0; restart < o.restarts; ++restart)
    for (int target = o.targets > 0 ? 0 : -1; target < targets; ++target)
      run(search, eps, o, number++, target);
  return search.result();
}

}  // namespace pursuit::attacks
