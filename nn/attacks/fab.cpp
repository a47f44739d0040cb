#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "nn/attacks/registry.h"
#include "nn/attacks/search.h"

namespace pursuit::attacks {

namespace {

// The shortest d with slope d = gain and, with `clip`, point + d in [0, 1]; as near to that as the box
// allows. It is d_i = +-min(t reach_i, room_i) with the reach 1 for l_inf and |slope_i| for l2: t grows until
// no further entry meets the box.
Row to_plane(const Row& point, const Row& slope, double gain, Norm norm, bool clip) {
  const size_t n = point.size();
  const bool up = gain > 0;
  std::vector<double> room(n, std::numeric_limits<double>::infinity()), reach(n, 1);
  for (size_t i = 0; i < n; ++i) {
    if (clip) room[i] = (slope[i] > 0) == up ? 1.0 - point[i] : double(point[i]);
    if (norm == Norm::l2) reach[i] = std::abs(slope[i]);
  }
  double t = 0;
  for (bool grows = true; grows;) {
    double left = std::abs(gain), per_t = 0;
    for (size_t i = 0; i < n; ++i) {
      const double weight = std::abs(slope[i]);
      if (t * reach[i] >= room[i])
        left -= weight * room[i];
      else
        per_t += weight * reach[i];
    }
    const double next = per_t > 0 ? std::max(left, 0.0) / per_t : t;
    grows = next > t * (1 + 1e-9);
    t = std::max(t, next);
  }
  Row d(n);
  for (size_t i = 0; i < n; ++i)
    if (slope[i] != 0) d[i] = float(std::min(t * reach[i], room[i]) * ((slope[i] > 0) == up ? 1 : -1));
  return d;
}

struct Walker {
  int64_t picture, target;
  Row at;
};

// A step from the point and from the picture to the plane where the linearised model is undecided, and a
// little beyond, weighted so that the nearer one counts more.
void walk(const Search& search, Walker& w, const Row& slope, double value, const FabOptions& o) {
  const Row& origin = search.origin(w.picture);
  double between = 0;
  for (size_t i = 0; i < origin.size(); ++i) between += double(slope[i]) * (double(w.at[i]) - origin[i]);
  const Row here = to_plane(w.at, slope, -value, o.norm, search.clips()),
            there = to_plane(origin, slope, between - value, o.norm, search.clips());
  const double a = std::max(length(here, o.norm), 1e-8), b = std::max(length(there, o.norm), 1e-8),
               alpha = std::min(a / (a + b), o.bias);
  for (size_t i = 0; i < origin.size(); ++i) {
    const double v =
        (w.at[i] + o.overshoot * here[i]) * (1 - alpha) + (origin[i] + o.overshoot * there[i]) * alpha;
    w.at[i] = float(search.clips() ? std::clamp(v, 0.0, 1.0) : v);
  }
}

void run(Search& search, double eps, const FabOptions& o, size_t target, int restart, uint64_t number) {
  std::vector<Walker> walkers;
  for (const int64_t picture : search.right())
    walkers.push_back(
        {picture, search.other_classes(picture)[target],
         restart == 0 ? search.origin(picture) : search.start(picture, o.norm, eps / 2, number)});
  for (int step = 0; step < o.steps && !walkers.empty(); ++step) {
    std::vector<int64_t> pictures;
    std::vector<Row> points;
    std::vector<double> values(walkers.size());
    for (const Walker& w : walkers) {
      pictures.push_back(w.picture);
      points.push_back(w.at);
    }
    const std::vector<Row> slopes =
        search.climb(pictures, points, [&](int64_t i, const Scores& s, float* slope) {
          const int64_t wanted = walkers[size_t(i)].target;
          slope[wanted] = 1;
          slope[s.label] = -1;
          values[size_t(i)] = double(s.logits[wanted]) - s.logits[s.label];
        });
    for_each_picture(walkers.size(), [&](size_t i) {
      walk(search, walkers[i], slopes[i], values[i], o);
      points[i] = walkers[i].at;
    });
    search.ask(pictures, points, [&](int64_t i, const Scores& s) {
      if (s.margin() >= 0) return;
      Walker& w = walkers[size_t(i)];
      const Row& origin = search.origin(w.picture);
      Row change = w.at;
      for (size_t k = 0; k < change.size(); ++k) change[k] -= origin[k];
      if (length(change, o.norm) <= eps) search.found(w.picture, w.at);
      for (size_t k = 0; k < change.size(); ++k) w.at[k] = float(origin[k] + o.back * change[k]);
    });
    std::erase_if(walkers, [&](const Walker& w) { return !search.is_right(w.picture); });
  }
}

template <Norm ball> struct FabAttack {
  static constexpr AttackTraits traits = {.name = ball == Norm::linf ? "fab-t" : "fab-t-l2", .norm = ball};
  struct Options : FabOptions {
    Options() { norm = ball; }
  };

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("steps", o.steps, "steps", Range{1, 1e5});
    f("targets", o.targets, "classes aimed at, of the highest logits", Range{1, 1e4});
    f("restarts", o.restarts, "starts, all but the first random", Range{1, 1000});
  }
  static Tensor run(const Victim& v, const Tensor& x, double eps, const Options& o) {
    return fab(v, x, eps, o);
  }
  static std::string describe(const Options& o, int64_t classes) {
    const int64_t targets = possible_targets(o.targets, classes);
    return fmt::format("{} steps, {} target{}, {} start{}", o.steps, targets, targets == 1 ? "" : "s",
                       o.restarts, o.restarts == 1 ? "" : "s");
  }
};
using FabLinf = FabAttack<Norm::linf>;
using FabL2 = FabAttack<Norm::l2>;
PURSUIT_ATTACK(FabLinf)
PURSUIT_ATTACK(FabL2)

}  // namespace

Tensor fab(const Victim& victim, const Tensor& x, double eps, const FabOptions& o) {
  Search search(victim, x);
  if (search.size() == 0) return x;
  const int64_t targets = possible_targets(o.targets, search.classes());
  check_starts(targets * o.restarts);
  for (int64_t target = 0; target < targets; ++target)
    for (int restart = 0; restart < o.restarts; ++restart)
      run(search, eps, o, size_t(target), restart, uint64_t(restart * targets + target));
  return search.result();
}

}  // namespace pursuit::attacks
