#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/ops.h"
#include "nn/attacks/registry.h"
#include "nn/init.h"
#include "nn/vit.h"
#include "tests/differences.h"

using namespace pursuit;
using namespace pursuit::attacks;

namespace {

constexpr int64_t channels = 2, side = 5, entries = channels * side * side;

Tensor pictures(int64_t batch, uint64_t seed, double lo = -1, double hi = 1) {
  return uniform({batch, channels, side, side}, lo, hi, seed, 1);
}

// logits = weight * picture, [classes, entries].
struct Linear {
  Tensor weight;
  explicit Linear(int64_t classes) : weight(uniform({classes, entries}, -1, 1, 7, 2)) {}
  Logits logits() const {
    return [w = weight](const Tensor& x) { return linear(x.reshape({x.size(0), entries}), w); };
  }
  // p_c by softmax of one picture, in double.
  std::vector<double> probabilities(const double* x) const {
    const auto w = weight.to_vector();
    std::vector<double> p(size_t(weight.size(0)));
    double sum = 0;
    for (size_t c = 0; c < p.size(); ++c) {
      double z = 0;
      for (int64_t i = 0; i < entries; ++i) z += w[c * entries + size_t(i)] * x[i];
      sum += p[c] = std::exp(z);
    }
    for (double& v : p) v /= sum;
    return p;
  }
  // z_label - z_other for two classes is the product with this.
  std::vector<double> margin_slope(int64_t label) const {
    const auto w = weight.to_vector();
    std::vector<double> d(entries);
    for (size_t i = 0; i < entries; ++i)
      d[i] = w[size_t(label) * entries + i] - w[size_t(1 - label) * entries + i];
    return d;
  }
};

double sign_of(double v) { return v > 0 ? 1 : v < 0 ? -1 : 0; }

double dot(const std::vector<double>& a, const double* b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Tensor labels_of(const std::vector<int64_t>& labels) { return from_vector(labels, {int64_t(labels.size())}); }

Tensor predictions(const Logits& logits, const Tensor& x) { return argmax(logits(x)); }

Settings settings_of(const std::string& name, bool pixel) {
  Settings s;
  s.name = name;
  s.budget = 6;
  s.pixel = pixel;
  s.mean = {0.4, 0.5};
  s.std = {0.2, 0.3};
  s.seed = 3;
  if (name == "spsa") s.options = {{"steps", int64_t(5)}, {"samples", int64_t(16)}};
  if (name.starts_with("square")) s.options = {{"queries", int64_t(100)}};
  return s;
}

}  // namespace

TEST_CASE("attacks: fgsm steps along the sign of the cross-entropy's gradient") {
  const Linear model(4);
  const Tensor x = pictures(3, 1);
  const std::vector<int64_t> labels{2, 0, 3};
  const auto before = x.to_vector(), w = model.weight.to_vector(),
             after = fgsm({model.logits(), labels_of(labels)}, x, 0.05).to_vector();
  for (size_t b = 0; b < 3; ++b) {
    const auto p = model.probabilities(&before[b * entries]);
    for (size_t i = 0; i < entries; ++i) {
      double slope = 0;
      for (size_t c = 0; c < 4; ++c) slope += (p[c] - (int64_t(c) == labels[b] ? 1 : 0)) * w[c * entries + i];
      CHECK(after[b * entries + i] - before[b * entries + i] ==
            doctest::Approx(0.05 * sign_of(slope)).epsilon(1e-5));
    }
  }
}

TEST_CASE("attacks: pgd on a linear model ends in the corner of the ball, clipped to the pixels' range") {
  const Linear model(2);
  const Tensor x = pictures(2, 2, 0, 1);
  const std::vector<int64_t> labels{0, 1};
  const double eps = 0.1;
  for (const bool clip : {false, true}) {
    const Victim victim{model.logits(), labels_of(labels), clip, 5};
    const auto before = x.to_vector(), after = pgd(victim, x, eps).to_vector();
    for (size_t b = 0; b < 2; ++b) {
      const auto slope = model.margin_slope(labels[b]);
      for (size_t i = 0; i < entries; ++i) {
        double want = before[b * entries + i] - eps * sign_of(slope[i]);
        if (clip) want = std::clamp(want, 0.0, 1.0);
        CHECK(after[b * entries + i] == doctest::Approx(want).epsilon(1e-5));
      }
    }
  }
  // Without steps, only the random start, inside the ball and different from x.
  const Tensor start = pgd({model.logits(), labels_of(labels)}, x, eps, {.steps = 0});
  CHECK(largest_difference(start, x) <= eps * 1.00001);
  CHECK(largest_difference(start, x) > eps / 2);
}

TEST_CASE("attacks: spsa comes close to the least margin in its ball") {
  const Linear model(2);
  const Tensor x = pictures(2, 3);
  const std::vector<int64_t> labels{0, 1};
  const Tensor adv = spsa({model.logits(), labels_of(labels)}, x, {.eps = 0.05, .steps = 30, .samples = 64});
  CHECK(largest_difference(adv, x) <= 0.05 * 1.0001);
  const auto before = x.to_vector(), after = adv.to_vector();
  for (size_t b = 0; b < 2; ++b) {
    const auto slope = model.margin_slope(labels[b]);
    double most = 0;
    for (double v : slope) most += 0.05 * std::abs(v);
    const double fall = dot(slope, &before[b * entries]) - dot(slope, &after[b * entries]);
    CHECK(fall > 0.8 * most);
    CHECK(fall <= most * 1.001);
  }
}

TEST_CASE("attacks: cw finds the other class, at nearly the shortest distance") {
  const Linear model(2);
  for (const bool clip : {false, true}) {
    const Tensor x = pictures(3, 4, 0.3, 0.7);
    const Tensor labels = predictions(model.logits(), x);
    const Victim victim{model.logits(), labels, clip};
    const Tensor adv = cw(victim, x, {.lr = 0.01, .steps = 200, .searches = 8});
    const auto truth = labels.to_vector(), before = x.to_vector(), after = adv.to_vector();
    for (size_t b = 0; b < 3; ++b) {
      const auto slope = model.margin_slope(int64_t(truth[b]));
      const double margin = dot(slope, &before[b * entries]);
      const double shortest = margin / std::sqrt(dot(slope, slope.data()));
      double length = 0;
      for (size_t i = 0; i < entries; ++i) {
        length += std::pow(after[b * entries + i] - before[b * entries + i], 2);
        if (clip) CHECK(std::abs(after[b * entries + i] - 0.5) <= 0.5);
      }
      CHECK(dot(slope, &after[b * entries]) < 0);
      CHECK(std::sqrt(length) >= shortest * 0.999);
      CHECK(std::sqrt(length) < shortest * 1.25 + 0.01);
    }
    // A confidence is kept.
    const auto sure = cw(victim, x, {.confidence = 0.5, .lr = 0.01, .steps = 200, .searches = 8}).to_vector();
    for (size_t b = 0; b < 3; ++b)
      CHECK(dot(model.margin_slope(int64_t(truth[b])), &sure[b * entries]) < -0.5 + 1e-4);
  }
}

TEST_CASE("attacks: cw gives a picture back where nothing works") {
  const Linear model(2);
  const Logits deaf = [&](const Tensor& x) {
    return model.logits()(x * 1e-6) + from_vector<float>({5, 0}, {2});
  };
  const Tensor x = pictures(2, 5);
  CHECK(largest_difference(cw({deaf, labels_of({0, 0})}, x, {.searches = 2}), x) == 0);
}

TEST_CASE("attacks: sld moves few entries and keeps to its l1 ball") {
  const Linear model(2);
  const Tensor x = pictures(2, 6);
  const std::vector<int64_t> labels{0, 1};
  const Victim victim{model.logits(), labels_of(labels)};
  const auto before = x.to_vector();
  const auto once = sld(victim, x, {.eps = 10, .step = 1, .steps = 1, .share = 0.1}).to_vector();
  const auto often = sld(victim, x, {.eps = 3, .step = 1, .steps = 6, .share = 0.1}).to_vector();
  for (size_t b = 0; b < 2; ++b) {
    const auto slope = model.margin_slope(labels[b]);
    std::vector<double> sizes;
    for (double v : slope) sizes.push_back(std::abs(v));
    std::sort(sizes.rbegin(), sizes.rend());
    const size_t kept = entries / 10;
    double length = 0;
    for (size_t i = 0; i < entries; ++i) {
      const bool steep = std::abs(slope[i]) >= sizes[kept - 1];
      const double change = once[b * entries + i] - before[b * entries + i];
      CHECK(change == doctest::Approx(steep ? -sign_of(slope[i]) / double(kept) : 0).epsilon(1e-4));
      length += std::abs(often[b * entries + i] - before[b * entries + i]);
    }
    CHECK(length == doctest::Approx(3).epsilon(1e-3));
  }
}

TEST_CASE("attacks: noise is uniform within its amplitude") {
  const Tensor x = pictures(40, 7);
  const Tensor d = noise({{}, {}, false, 1}, x, 0.3) - x;
  double sum = 0, squares = 0;
  for (double v : d.to_vector()) {
    CHECK(std::abs(v) <= 0.3001);
    sum += v;
    squares += v * v;
  }
  const double n = double(d.numel());
  CHECK(std::abs(sum / n) < 0.02);
  CHECK(squares / n == doctest::Approx(0.03).epsilon(0.1));
}

TEST_CASE("attacks: the same seed gives the same pictures, whatever the batch size") {
  const Linear model(4);
  const Tensor x = pictures(4, 8, 0, 1), labels = predictions(model.logits(), x);
  CHECK(names().size() >= 14);
  for (const std::string& name : names()) {
    CAPTURE(name);
    Settings s = settings_of(name, true);
    s.mean = {0, 0};
    s.std = {1, 1};
    s.budget = info_of(name).traits.norm == Norm::l2 ? 4 : 60;
    const Tensor all = attack(model.logits(), x, labels, s);
    CHECK(largest_difference(all, attack(model.logits(), x, labels, s)) == 0);
    const Tensor last = attack(model.logits(), x.slice(0, 2, 4), labels.slice(0, 2, 4), s, {2, 3});
    CHECK(largest_difference(all.slice(0, 2, 4), last) < 1e-5);
    CHECK(largest_difference(all, x) > 1e-3);
    s.seed = 4;
    if (name == "spsa" || name == "noise")  // pgd ends in the same corner from anywhere
      CHECK(largest_difference(all, attack(model.logits(), x, labels, s)) > 1e-4);
  }
}

TEST_CASE("attacks: in pixel space budgets are per pixel and pictures stay valid") {
  const Linear model(4);
  Settings s = settings_of("fgsm", true);
  // Normalised pictures whose pixels cover [0, 1].
  const Tensor mean = from_vector(s.mean, {1, 2, 1, 1}).to(DType::f32);
  const Tensor std = from_vector(s.std, {1, 2, 1, 1}).to(DType::f32);
  const Tensor pixels = clamp(pictures(4, 9, -0.2, 1.2), 0, 1), x = (pixels - mean) / std;
  const Tensor labels = labels_of({0, 1, 2, 3});
  for (const std::string& name : names()) {
    CAPTURE(name);
    s = settings_of(name, true);
    const Tensor adv = attack(model.logits(), x, labels, s) * std + mean;
    for (double v : adv.to_vector()) {
      CHECK(v >= -1e-5);
      CHECK(v <= 1 + 1e-5);
    }
    if (name == "fgsm" || name == "pgd" || name == "mim") {
      CHECK(largest_difference(adv, pixels) == doctest::Approx(6.0 / 255).epsilon(1e-3));
      double total = 0;
      for (const Length& length : lengths(x, attack(model.logits(), x, labels, s), s)) {
        CHECK(length.linf <= 6.0 / 255 * 1.001);
        total += length.l2;
      }
      CHECK(total == doctest::Approx(sum(sqrt(sum(square(adv - pixels), {1, 2, 3}))).item()).epsilon(1e-3));
    }
  }
}

TEST_CASE("attacks: the published space attacks the model's own prediction, the usual one the true label") {
  const Linear model(4);
  const Tensor x = pictures(4, 10);
  const Tensor right = predictions(model.logits(), x);
  std::vector<int64_t> other;
  for (double v : right.to_vector()) other.push_back((int64_t(v) + 1) % 4);
  const auto run = [&](bool pixel, const Tensor& labels) {
    return attack(model.logits(), x, labels, settings_of("fgsm", pixel));
  };
  CHECK(largest_difference(run(false, right), run(false, labels_of(other))) == 0);
  CHECK(largest_difference(run(true, right), run(true, labels_of(other))) > 0.01);
}

TEST_CASE("attacks: pgd hurts a vision transformer far more than noise of its size") {
  nn::VitConfig config;
  config.image = 8;
  config.patch = 4;
  config.channels = 2;
  config.dim = 16;
  config.depth = 2;
  config.heads = 2;
  config.classes = 5;
  config.attention.kind = "rpc";
  nn::VisionTransformer model(config);
  nn::initialise(model, nn::Init::pytorch, 1);
  for (const nn::NamedTensor& p : model.parameters()) *p.tensor = p.tensor->detach();
  const Logits logits = [&](const Tensor& x) { return model.forward(x); };
  const Tensor x = uniform({6, 2, 8, 8}, -1, 1, 11, 1);
  const Tensor labels = predictions(logits, x);
  const auto loss = [&](const Tensor& at) { return cross_entropy(logits(at), labels).item(); };
  const Victim victim{logits, labels, false, 2};
  const double clean = loss(x), noisy = loss(noise(victim, x, 0.1)), attacked = loss(pgd(victim, x, 0.1));
  CHECK(attacked > clean);
  CHECK(attacked - clean > 3 * std::abs(noisy - clean));
}

TEST_CASE("attacks: of a model that draws numbers, the gradient is a mean over draws") {
  // The sign of the margin's slope in every entry is lost in noise that is ten times as large, but not in the
  // mean over many draws.
  const Linear model(2);
  const Tensor x = pictures(3, 13), labels = labels_of({0, 1, 0});
  uint64_t call = 0;
  const Logits random = [&](const Tensor& t) {
    const Tensor drawn = uniform(model.weight.shape(), -10, 10, 21, ++call);
    return linear(t.reshape({t.size(0), entries}), model.weight + drawn) * 0.01;
  };
  Settings s = settings_of("fgsm", true);
  s.mean = {0, 0};
  s.std = {1, 1};
  const auto right = [&](int draws) {  // share of the entries that move as the mean model's slope says
    s.draws = draws;
    const Tensor pixels = clamp(x, 0.1, 0.9);
    const auto before = pixels.to_vector(), after = attack(random, pixels, labels, s).to_vector();
    const std::vector<int64_t> label = {0, 1, 0};
    double same = 0;
    for (size_t b = 0; b < 3; ++b) {
      const auto slope = model.margin_slope(label[b]);
      for (size_t i = 0; i < entries; ++i)
        same += sign_of(after[b * entries + i] - before[b * entries + i]) == -sign_of(slope[i]);
    }
    return same / double(before.size());
  };
  CHECK(right(1) < 0.75);
  CHECK(right(2000) > 0.85);
  call = 0;
  right(3);
  CHECK(call == 2 + 3);  // two calls tell that it draws

  s.draws = 4;
  CHECK_THROWS_WITH_AS(attack(model.logits(), x, labels, s),
                       doctest::Contains("4 draws needs a model that draws random numbers"), Error);
  s.draws = 0;
  CHECK_THROWS_WITH_AS(attack(random, x, labels, s), doctest::Contains("got 0 draws"), Error);
}

TEST_CASE("attacks: wrong use is said") {
  const Linear model(3);
  const Tensor x = pictures(1, 12), labels = labels_of({0});
  const auto message = [&](const Settings& s, const Logits& logits) {
    try {
      attack(logits, x, labels, s);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(message(settings_of("fsgm", false), model.logits()).find("fgsm, mim, noise") != std::string::npos);
  Settings s = settings_of("fgsm", true);
  s.mean = {0.5};
  CHECK(message(s, model.logits()).find("channels") != std::string::npos);
  const Logits broken = [&](const Tensor& t) { return model.logits()(t) * double(NAN); };
  CHECK(message(settings_of("fgsm", true), broken).find("not finite") != std::string::npos);
  // Its streams end there; the next one is another picture's.
  s = settings_of("spsa", false);
  s.options["steps"] = int64_t(max_spsa_steps + 1);
  CHECK(message(s, model.logits()).find("option steps is out of range, need 1 to 65535") !=
        std::string::npos);
  s.options = {{"step", 0.1}};
  CHECK(message(s, model.logits()).find("spsa has no option 'step'") != std::string::npos);
  CHECK_THROWS_WITH_AS(spsa({model.logits(), labels, false, 1}, x, {.steps = max_spsa_steps + 1}),
                       doctest::Contains("0 to 65535 steps"), Error);
}
