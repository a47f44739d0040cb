#include "nn/attacks/attacks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "engine/ops.h"

namespace pursuit::attacks {

namespace {

Tensor per_channel(const std::vector<double>& values, const Tensor& images) {
  if (int64_t(values.size()) != images.size(1))
    fail("attack", "the normalisation is for " + std::to_string(values.size()) +
                       " channels, the pictures are " + images.str());
  return from_vector(values, {1, images.size(1), 1, 1}).to(images.dtype()).to(images.device());
}

struct Attack {
  const char* name;
  bool has_budgets;
  double (*fixed_budget)(const Settings&);
  Tensor (*run)(const Victim&, const Tensor& x, const Settings&);
  std::string (*describe)(const Settings&);
};

const std::vector<Attack>& table() {
  const auto none = [](const Settings&) { return 0.0; };
  const auto plain = [](const Settings&) { return std::string(); };
  static const std::vector<Attack> all = {
      {"fgsm", true, none,
       [](const Victim& v, const Tensor& x, const Settings& s) { return fgsm(v, x, s.budget / 255); }, plain},
      {"pgd", true, none,
       [](const Victim& v, const Tensor& x, const Settings& s) { return pgd(v, x, s.budget / 255, s.pgd); },
       [](const Settings& s) {
         return fmt::format("{} steps of {} of the budget", s.pgd.steps, s.pgd.step);
       }},
      {"spsa", false, [](const Settings& s) { return s.spsa.eps; },
       [](const Victim& v, const Tensor& x, const Settings& s) { return spsa(v, x, s.spsa); },
       [](const Settings& s) {
         return fmt::format("{} steps, {} samples, lr {}, delta {}", s.spsa.steps, s.spsa.samples, s.spsa.lr,
                            s.spsa.delta);
       }},
      {"cw", false, none, [](const Victim& v, const Tensor& x, const Settings& s) { return cw(v, x, s.cw); },
       [](const Settings& s) {
         return fmt::format("{} steps, {} searches, lr {}, c {}, confidence {}", s.cw.steps, s.cw.searches,
                            s.cw.lr, s.cw.c, s.cw.confidence);
       }},
      {"sld", false, [](const Settings& s) { return s.sld.eps; },
       [](const Victim& v, const Tensor& x, const Settings& s) { return sld(v, x, s.sld); },
       [](const Settings& s) {
         return fmt::format("{} steps of {}, share {}", s.sld.steps, s.sld.step, s.sld.share);
       }},
      {"noise", false, [](const Settings& s) { return s.noise; },
       [](const Victim& v, const Tensor& x, const Settings& s) { return noise(v, x, s.noise); }, plain}};
  return all;
}

const Attack& attack_of(const std::string& name) {
  for (const Attack& a : table())
    if (a.name == name) return a;
  fail("attack", fmt::format("there is no attack '{}'; known are {}", name, fmt::join(names(), ", ")));
}

Tensor run(const Victim& v, const Tensor& x, const Settings& s) { return attack_of(s.name).run(v, x, s); }

}  // namespace

const std::vector<std::string>& names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> list;
    for (const Attack& a : table()) list.push_back(a.name);
    return list;
  }();
  return all;
}

bool has_budgets(const std::string& attack) { return attack_of(attack).has_budgets; }
double fixed_budget(const Settings& s) { return attack_of(s.name).fixed_budget(s); }
std::string describe(const Settings& s) { return attack_of(s.name).describe(s); }

Tensor attack(const Logits& logits, const Tensor& images, const Tensor& labels, const Settings& s,
              const std::vector<int64_t>& pictures) {
  if (images.ndim() != 4) fail("attack", "the pictures are " + images.str() + ", need [B, C, H, W]");
  if (!pictures.empty() && int64_t(pictures.size()) != images.size(0))
    fail("attack", std::to_string(pictures.size()) + " numbers do not fit the pictures " + images.str());
  const Tensor x = images.detach();
  if (!s.pixel) {
    Tensor predicted;
    {
      NoGrad off;
      predicted = argmax(logits(x)).to(x.device());
    }
    return run({logits, predicted, false, s.seed, pictures}, x, s).detach();
  }
  const Tensor mean = per_channel(s.mean, x), std = per_channel(s.std, x);
  const Logits of_pixels = [&](const Tensor& pixels) { return logits((pixels - mean) / std); };
  const Tensor pixels = clamp(x * std + mean, 0, 1);
  return (run({of_pixels, labels, true, s.seed, pictures}, pixels, s).detach() - mean) / std;
}

double perturbation_length(const Tensor& before, const Tensor& after, const Settings& s) {
  NoGrad off;
  Tensor d = after - before;
  if (s.pixel) d = d * per_channel(s.std, before);
  return sum(sqrt(sum(square(d), {1, 2, 3}))).item();
}

}  // namespace pursuit::attacks
