#include "nn/attacks/attacks.h"

#include <fmt/format.h>

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

Tensor run(const Victim& v, const Tensor& x, const Settings& s) {
  if (s.name == "fgsm") return fgsm(v, x, s.budget / 255);
  if (s.name == "pgd") return pgd(v, x, s.budget / 255, s.pgd);
  if (s.name == "spsa") return spsa(v, x, s.spsa);
  if (s.name == "cw") return cw(v, x, s.cw);
  if (s.name == "sld") return sld(v, x, s.sld);
  if (s.name == "noise") return noise(v, x, s.noise);
  std::string list;
  for (const std::string& name : names()) list += (list.empty() ? "" : ", ") + name;
  fail("attack", "there is no attack '" + s.name + "'; known are " + list);
}

}  // namespace

const std::vector<std::string>& names() {
  static const std::vector<std::string> names{"fgsm", "pgd", "spsa", "cw", "sld", "noise"};
  return names;
}

bool has_budgets(const std::string& attack) { return attack == "fgsm" || attack == "pgd"; }

double fixed_budget(const Settings& s) {
  return s.name == "spsa" ? s.spsa.eps : s.name == "sld" ? s.sld.eps : s.name == "noise" ? s.noise : 0;
}

std::string describe(const Settings& s) {
  if (s.name == "pgd") return fmt::format("{} steps of {} of the budget", s.pgd.steps, s.pgd.step);
  if (s.name == "spsa")
    return fmt::format("{} steps, {} samples, lr {}, delta {}", s.spsa.steps, s.spsa.samples, s.spsa.lr,
                       s.spsa.delta);
  if (s.name == "cw")
    return fmt::format("{} steps, {} searches, lr {}, c {}, confidence {}", s.cw.steps, s.cw.searches,
                       s.cw.lr, s.cw.c, s.cw.confidence);
  if (s.name == "sld") return fmt::format("{} steps of {}, share {}", s.sld.steps, s.sld.step, s.sld.share);
  return "";
}

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
