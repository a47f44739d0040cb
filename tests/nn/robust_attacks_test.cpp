// Attacks that search until the model is wrong, on linear models, whose distance to every other class is
// known in closed form: margin / |w_y - w_j|, in the dual norm.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "engine/ops.h"
#include "nn/attacks/attacks.h"
#include "nn/attacks/registry.h"
#include "tests/message_of.h"

using namespace pursuit;
using namespace pursuit::attacks;

namespace {

constexpr int64_t channels = 2, side = 6, entries = channels * side * side, batch = 60;

struct Linear {
  Tensor weight;
  int mutable queries = 0;
  explicit Linear(int64_t classes) : weight(uniform({classes, entries}, -1, 1, 7, 2)) {}
  Logits logits() const {
    return [this](const Tensor& x) {
      queries += int(x.size(0));
      return linear(x.reshape({x.size(0), entries}), weight);
    };
  }
  // The least change in this norm that makes the model wrong.
  std::vector<double> distances(const Tensor& x, const Tensor& labels, Norm norm) const {
    const std::vector<double> z = linear(x.reshape({x.size(0), entries}), weight).to_vector(),
                              y = labels.to_vector(), w = weight.to_vector();
    const int64_t classes = weight.size(0);
    std::vector<double> least;
    for (int64_t b = 0; b < x.size(0); ++b) {
      double best = INFINITY;
      const int64_t label = int64_t(y[size_t(b)]);
      for (int64_t j = 0; j < classes; ++j) {
        if (j == label) continue;
        double dual = 0;
        for (int64_t i = 0; i < entries; ++i) {
          const double d = w[size_t(label * entries + i)] - w[size_t(j * entries + i)];
          dual += norm == Norm::linf ? std::abs(d) : d * d;
        }
        if (norm == Norm::l2) dual = std::sqrt(dual);
        best = std::min(best, (z[size_t(b * classes + label)] - z[size_t(b * classes + j)]) / dual);
      }
      least.push_back(best);
    }
    return least;
  }
};

double length(const std::vector<double>& a, const std::vector<double>& b, int64_t picture, Norm norm) {
  double most = 0, squares = 0;
  for (int64_t i = picture * entries; i < (picture + 1) * entries; ++i) {
    const double d = a[size_t(i)] - b[size_t(i)];
    most = std::isnan(d) ? d : std::max(most, std::abs(d));
    squares += d * d;
  }
  return norm == Norm::linf ? most : std::sqrt(squares);
}

// The budget with as many pictures beyond as within.
double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Outcome {
  int fell = 0, within = 0;
};

// Every picture that fell is misclassified, within eps, and nearer to another class than eps; all those that
// are nearer than `sure` times eps fell. Returns the counts.
template <class Attack> Outcome check(const Linear& model, Norm norm, double sure, const Attack& attack) {
  const Tensor x = uniform({batch, channels, side, side}, -1, 1, 11, 3);
  const Tensor labels = argmax(model.logits()(x));
  const std::vector<double> distances = model.distances(x, labels, norm);
  const double eps = median(distances);
  const Tensor after = attack(Victim{model.logits(), labels, false, 5}, x, eps);
  const std::vector<double> a = x.to_vector(), b = after.to_vector(), y = labels.to_vector(),
                            now = argmax(model.logits()(after)).to_vector();
  Outcome out;
  for (int64_t i = 0; i < batch; ++i) {
    CAPTURE(i);
    const double d = distances[size_t(i)], moved = length(a, b, i, norm);
    const bool fell = now[size_t(i)] != y[size_t(i)];
    out.fell += fell;
    out.within += d < eps;
    CHECK(moved <= eps * 1.00001);
    if (fell)
      CHECK(d <= eps * 1.00001);
    else
      CHECK(moved == 0);
    if (d < sure * eps) CHECK(fell);
  }
  REQUIRE(out.within > batch / 3);
  REQUIRE(out.within < batch);
  return out;
}

}  // namespace

TEST_CASE("attacks: apgd finds every picture within the budget, and no other") {
  const Linear model(5);
  for (const Norm norm : {Norm::linf, Norm::l2}) {
    CAPTURE(int(norm));
    for (const auto loss : {ApgdOptions::Loss::cross_entropy, ApgdOptions::Loss::dlr}) {
      CAPTURE(int(loss));
      const Outcome untargeted = check(model, norm, 0.9, [&](const Victim& v, const Tensor& x, double eps) {
        return apgd(v, x, eps, {.loss = loss, .norm = norm});
      });
      CHECK(untargeted.fell >= untargeted.within - 3);
    }
    const Outcome targeted = check(model, norm, 0.99, [&](const Victim& v, const Tensor& x, double eps) {
      return apgd(v, x, eps, {.norm = norm, .targets = 9});
    });
    CHECK(targeted.fell >= targeted.within - 1);
  }
}

TEST_CASE("attacks: fab finds every picture within the budget, and no other") {
  const Linear model(5);
  for (const Norm norm : {Norm::linf, Norm::l2}) {
    CAPTURE(int(norm));
    const Outcome found = check(model, norm, 0.99, [&](const Victim& v, const Tensor& x, double eps) {
      return fab(v, x, eps, {.norm = norm});
    });
    CHECK(found.fell >= found.within - 1);
  }
}

TEST_CASE("attacks: autoattack finds every picture within the budget, and asks no more about the fallen") {
  const Linear model(5);
  const Outcome found = check(model, Norm::linf, 0.99, [&](const Victim& v, const Tensor& x, double eps) {
    return autoattack(v, x, eps, Norm::linf, 100);
  });
  CHECK(found.fell >= found.within - 1);
}

TEST_CASE("attacks: pgd in l2 finds every picture within the budget, and no other") {
  const Linear model(5);
  const Outcome found = check(model, Norm::l2, 0.9, [&](const Victim& v, const Tensor& x, double eps) {
    return pgd_l2(v, x, eps, {.restarts = 3});
  });
  CHECK(found.fell >= found.within - 3);
}

TEST_CASE("attacks: square finds what is well within the budget without a gradient") {
  const Linear model(5);
  for (const Norm norm : {Norm::linf, Norm::l2}) {
    CAPTURE(int(norm));
    const Outcome found = check(model, norm, 0.5, [&](const Victim& v, const Tensor& x, double eps) {
      const NoGrad off;
      return attacks::square(v, x, eps, {.norm = norm, .queries = 1000});
    });
    CHECK(found.fell > found.within / 2);
  }
}

TEST_CASE("attacks: pictures keep their numbers and their range, and fallen ones are asked no more") {
  const Linear model(5);
  const Tensor x = uniform({4, channels, side, side}, 0, 1, 1, 3);
  const Tensor labels = argmax(model.logits()(x));
  const Victim all{model.logits(), labels, true, 5};
  for (const bool gradient : {true, false}) {
    const auto attack = [&](const Victim& v, const Tensor& pictures) {
      return gradient ? apgd(v, pictures, 0.05, {.steps = 20})
                      : attacks::square(v, pictures, 0.05, {.queries = 50});
    };
    const Tensor together = attack(all, x);
    Victim last = all;
    last.labels = labels.slice(0, 3, 4);
    last.pictures = {3};
    CHECK(attack(last, x.slice(0, 3, 4)).to_vector() == together.slice(0, 3, 4).to_vector());
    for (const double v : together.to_vector()) CHECK((v >= 0 && v <= 1));
  }
  // What is wrong from the start comes back as it is, after one look.
  std::vector<int64_t> others;
  for (const double y : labels.to_vector()) others.push_back((int64_t(y) + 1) % 5);
  const Victim wrong{model.logits(), from_vector(others, {4}), true, 5};
  model.queries = 0;
  CHECK(apgd(wrong, x, 0.05).to_vector() == x.to_vector());
  CHECK(model.queries == 4);
}

TEST_CASE("attacks: losses that need more classes than there are") {
  const Linear model(2);
  const Tensor x = uniform({1, channels, side, side}, 0, 1, 1, 3);
  const Victim victim{model.logits(), argmax(model.logits()(x)), true, 5};
  CHECK(message_of([&] { apgd(victim, x, 0.1, {.targets = 9}); }).find("4 highest logits") !=
        std::string::npos);
  CHECK(message_of([&] { apgd(victim, x, 0.1, {.loss = ApgdOptions::Loss::dlr}); }).find("has 2") !=
        std::string::npos);
  CHECK(message_of([&] { attacks::square(victim, x, 0.1, {.queries = 0}); }).find("0 queries") !=
        std::string::npos);
}

TEST_CASE("attacks: apgd-t and fab-t tell how many classes they aim at") {
  const auto described = [](const char* name, int64_t classes, const OptionValues& options = {}) {
    Settings s;
    s.name = name;
    s.options = options;
    s.classes = classes;
    return s.describe();
  };
  for (const int64_t classes : {0, 10, 1000}) {
    CHECK(described("apgd-t", classes) == "100 steps, 1 start, 9 targets");
    CHECK(described("fab-t-l2", classes) == "100 steps, 9 targets, 1 start");
  }
  CHECK(described("apgd-t-l2", 4) == "100 steps, 1 start, 3 targets");
  CHECK(described("fab-t", 2) == "100 steps, 1 target, 1 start");
  CHECK(described("fab-t", 5, {{"targets", int64_t(2)}}) == "100 steps, 2 targets, 1 start");
  CHECK(described("pgd", 4) == described("pgd", 0));
}

TEST_CASE("robust attacks: a model that gives NaN is no robust one") {
  const Tensor x = uniform({2, 1, 4, 4}, 0.2, 0.8, 1, 0),
               labels = from_vector(std::vector<int64_t>{0, 1}, {2});
  int asked = 0;
  const Logits failing = [&](const Tensor& images) {
    const Tensor rows = reshape(images, {images.size(0), 16});
    const Tensor sums = concat({sum(rows, {1}, true), sum(rows * -1, {1}, true)}, 1);
    return asked++ == 0 ? sums * 0 : sums * INFINITY * 0;
  };
  Victim v{.logits = failing, .labels = labels};
  CHECK(message_of([&] { attacks::square(v, x, 0.1, {.queries = 3}); }).find("not finite") !=
        std::string::npos);
  CHECK(asked == 2);
  const Logits sound = [](const Tensor& images) {
    const Tensor rows = reshape(images, {images.size(0), 16});
    return concat({sum(rows, {1}, true), sum(rows * -1, {1}, true)}, 1);
  };
  v.logits = sound;
  CHECK(message_of([&] { fab(v, x, 0.1, {.restarts = 70'000}); }).find("need at most 65535") !=
        std::string::npos);
}

TEST_CASE(
    "robust attacks: windows of square reach the last row and column, those of the published code do not") {
  const Tensor x = uniform({4, 1, 6, 6}, 0.4, 0.6, 1, 0), labels = zeros({4}, DType::i64, cpu);
  for (const bool inner : {false, true}) {
    CAPTURE(inner);
    std::vector<std::vector<double>> edges;  // of every query: the last row and column
    const Logits logits = [&](const Tensor& images) {
      edges.push_back(slice(images, 2, 5, 6).to_vector());
      const std::vector<double> column = slice(images, 3, 5, 6).to_vector();
      edges.back().insert(edges.back().end(), column.begin(), column.end());
      const Tensor sums = sum(reshape(images, {4, 36}), {1}, true);
      return concat({sums * 0 + 100.0, sums}, 1);  // never wrong
    };
    attacks::square({.logits = logits, .labels = labels}, x, 0.1,
                    {.queries = 200, .share = 0.1, .inner_windows = inner});
    REQUIRE(edges.size() == 201);  // the pictures, then the queries; the first draws stripes
    int changed = 0;
    for (size_t i = 2; i < edges.size(); ++i) changed += edges[i] != edges[1];
    CHECK((changed == 0) == inner);
  }
}
