#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/ops.h"
#include "nn/attacks/parts.h"
#include "nn/attacks/registry.h"

namespace pursuit::attacks {

namespace {

Tensor as_host_floats(const Tensor& x) { return x.to(DType::f32).to(cpu).contiguous(); }

// Keeps the largest entries in magnitude, a `share` of all and their ties, as +-step / (number of entries
// kept); sets the others to 0.
void keep_steepest(float* g, int64_t n, double share, double step) {
  const int64_t kept = std::clamp<int64_t>(std::llround(share * double(n)), 1, n);
  std::vector<float> sizes(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) sizes[size_t(i)] = std::abs(g[i]);
  std::nth_element(sizes.begin(), sizes.begin() + (n - kept), sizes.end());
  const float least = sizes[size_t(n - kept)];
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += std::abs(g[i]) >= least && g[i] != 0;
  const float size = count ? float(step / double(count)) : 0;
  for (int64_t i = 0; i < n; ++i) g[i] = std::abs(g[i]) >= least && g[i] != 0 ? std::copysign(size, g[i]) : 0;
}

// Projects d onto the l1-ball of radius eps by shrinking all entries towards zero by the same amount. Duchi
// et al., "Efficient projections onto the l1-ball for learning in high dimensions", ICML 2008.
void project_l1(float* d, int64_t n, double eps) {
  double length = 0;
  std::vector<float> sizes;
  for (int64_t i = 0; i < n; ++i) {
    length += std::abs(d[i]);
    if (d[i] != 0) sizes.push_back(std::abs(d[i]));
  }
  if (length <= eps) return;
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  double sum = 0, shrink = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    sum += sizes[k];
    const double candidate = (sum - eps) / double(k + 1);
    if (candidate >= sizes[k]) break;
    shrink = candidate;
  }
  for (int64_t i = 0; i < n; ++i) {
    const double size = std::max(std::abs(d[i]) - shrink, 0.0);
    d[i] = float(std::copysign(size, d[i]));
  }
}

struct Sld {
  static constexpr AttackTraits traits = {.name = "sld"};
  using Options = SldOptions;

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("eps", o.eps, "largest l1 norm of the change", above(0, 1e6));
    f("step", o.step, "l1 norm of a step", above(0, 1e6));
    f("steps", o.steps, "steps", Range{0, 1e6});
    f("share", o.share, "share of the entries that a step moves", above(0, 1));
  }
  static double budget(const Options& o) { return o.eps; }
  static Tensor run(const Victim& v, const Tensor& x, double, const Options& o) { return sld(v, x, o); }
  static std::string describe(const Options& o) {
    return fmt::format("{} steps of {}, share {}", o.steps, o.step, o.share);
  }
};
PURSUIT_ATTACK(Sld)

}  // namespace

Tensor sld(const Victim& v, const Tensor& x, const SldOptions& o) {
  const int64_t batch = x.size(0), n = batch ? x.numel() / batch : 0;
  Tensor adv = x;
  for (int i = 0; i < o.steps; ++i) {
    const Tensor g = as_host_floats(loss_gradient(v, adv)) * 1.0;  // * 1.0 copies it, to be overwritten
    float* const slopes = g.data<float>();
    for_each_picture(size_t(batch),
                     [&](size_t b) { keep_steepest(slopes + int64_t(b) * n, n, o.share, o.step); });
    const Tensor change = as_host_floats(adv - x) + g;
    float* const changes = change.data<float>();
    for_each_picture(size_t(batch), [&](size_t b) { project_l1(changes + int64_t(b) * n, n, o.eps); });
    adv = kept_in_range(v, x + change.to(x.dtype()).to(x.device()));
  }
  return adv;
}

}  // namespace pursuit::attacks
