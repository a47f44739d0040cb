#include <fmt/format.h>

#include <cmath>

#include "nn/attacks/registry.h"
#include "nn/attacks/search.h"

namespace pursuit::attacks {

namespace {

struct PgdL2 {
  static constexpr AttackTraits traits = {.name = "pgd-l2", .norm = Norm::l2};
  using Options = PgdL2Options;

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("steps", o.steps, "steps", Range{0, 1e6});
    f("step", o.step, "their length relative to the budget", above(0, 1e3));
    f("restarts", o.restarts, "random starts", Range{1, 1e4});
  }
  static Tensor run(const Victim& v, const Tensor& x, double eps, const Options& o) {
    return pgd_l2(v, x, eps, o);
  }
  static std::string describe(const Options& o) {
    return fmt::format("{} steps of {} of the budget, {} start{}", o.steps, o.step, o.restarts,
                       o.restarts == 1 ? "" : "s");
  }
};
PURSUIT_ATTACK(PgdL2)

// A point drawn evenly from the ball.
Row start_of(const Search& search, int64_t picture, double eps, uint64_t run) {
  Random random = search.random(picture, streams::attack::spsa_steps, run);
  Row direction(search.origin(picture).size());
  for (float& v : direction) v = float(random.normal());
  const double length = l2_length(direction) + 1e-12,
               radius = eps * std::pow(random.uniform(), 1.0 / double(direction.size()));
  Row point = search.origin(picture);
  for (size_t i = 0; i < point.size(); ++i) point[i] += float(radius * direction[i] / length);
  search.project(point, picture, Norm::l2, eps);
  return point;
}

}  // namespace

Tensor pgd_l2(const Victim& victim, const Tensor& x, double eps, const PgdL2Options& o) {
  Search search(victim, x);
  for (int run = 0; run < o.restarts; ++run) {
    std::vector<int64_t> pictures = search.right();
    std::vector<Row> points;
    for (const int64_t picture : pictures) points.push_back(start_of(search, picture, eps, uint64_t(run)));
    for (int step = 0; step <= o.steps && !pictures.empty(); ++step) {
      const std::vector<Row> slopes =
          search.climb(pictures, points, [&](int64_t i, const Scores& s, float* slope) {
            cross_entropy(s, slope);
            if (s.margin() < 0) search.found(pictures[size_t(i)], points[size_t(i)]);
          });
      std::vector<int64_t> left;
      std::vector<Row> moved;
      for (size_t i = 0; i < pictures.size(); ++i) {
        if (!search.is_right(pictures[i])) continue;
        const double length = l2_length(slopes[i]) + 1e-12;
        Row point = std::move(points[i]);
        for (size_t k = 0; k < point.size(); ++k) point[k] += float(o.step * eps * slopes[i][k] / length);
        search.project(point, pictures[i], Norm::l2, eps);
        left.push_back(pictures[i]);
        moved.push_back(std::move(point));
      }
      pictures = std::move(left);
      points = std::move(moved);
    }
  }
  return search.size() == 0 ? x : search.result();
}

}  // namespace pursuit::attacks
