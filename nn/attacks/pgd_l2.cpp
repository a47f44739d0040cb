#include <fmt/format.h>

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

}  // namespace

Tensor pgd_l2(const Victim& victim, const Tensor& x, double eps, const PgdL2Options& o) {
  Search search(victim, x);
  for (int run = 0; run < o.restarts; ++run) {
    std::vector<int64_t> pictures = search.right();
    std::vector<Row> points(pictures.size());
    for_each_picture(pictures.size(), [&](size_t i) {
      points[i] = search.start(pictures[i], Norm::l2, eps, uint64_t(run), Search::Part::ball);
    });
    for (int step = 0; step <= o.steps && !pictures.empty(); ++step) {
      const std::vector<Row> slopes =
          search.climb(pictures, points, [&](int64_t i, const Scores& s, float* slope) {
            cross_entropy(s, slope);
            if (s.margin() < 0) search.found(pictures[size_t(i)], points[size_t(i)]);
          });
      for_each_picture(pictures.size(), [&](size_t i) {
        const double size = length(slopes[i], Norm::l2) + 1e-12;
        for (size_t k = 0; k < points[i].size(); ++k)
          points[i][k] += float(o.step * eps * slopes[i][k] / size);
        search.project(points[i], pictures[i], Norm::l2, eps);
      });
      std::vector<int64_t> left;
      std::vector<Row> moved;
      for (size_t i = 0; i < pictures.size(); ++i) {
        if (!search.is_right(pictures[i])) continue;
        left.push_back(pictures[i]);
        moved.push_back(std::move(points[i]));
      }
      pictures = std::move(left);
      points = std::move(moved);
    }
  }
  return search.size() == 0 ? x : search.result();
}

}  // namespace pursuit::attacks
