#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "apps/pca/experiments.h"
#include "apps/pca/published.h"
#include "apps/pca/threefry.h"
#include "apps/pca/training.h"
#include "tests/message_of.h"

using namespace pursuit;
using namespace pursuit::pca;

// Known answers of Random123 (kat_vectors, 20 rounds).
TEST_CASE("pca: Threefry") {
  CHECK(threefry({0, 0}, {0, 0}) == Words{0x6b200159, 0x99ba4efe});
  CHECK(threefry({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) == Words{0x1cb996fc, 0xbb002be7});
  CHECK(threefry({0x13198a2e, 0x03707344}, {0x243f6a88, 0x85a308d3}) == Words{0xc4923a9c, 0x483df7a0});
}

// What JAX 0.10.2 prints for split(PRNGKey(0)) and normal(split(PRNGKey(0))[1], (6,)), whose inverse error
// function is a polynomial in f32: within two parts in 10^6.
TEST_CASE("pca: keys and normal numbers are JAX's") {
  CHECK(split({0, 0}, 0) == Words{1797259609, 2579123966});
  CHECK(split({0, 0}, 1) == Words{928981903, 3453687069});
  const std::vector<double> z = threefry_normals(split({0, 0}, 1), 6);
  const double expected[] = {-2.44245577, -2.03568053, 0.20554423, -0.35355020, -0.76197404, -1.17855179};
  REQUIRE(z.size() == 6);
  for (size_t i = 0; i < 6; ++i) CHECK(z[i] == doctest::Approx(expected[i]).epsilon(2e-6));
}

// The same, of A A^T + 0.1 I in f32, which rounds sums of d products: within d parts in 10^6.
TEST_CASE("pca: the published covariances") {
  const double upper[] = {10.95743747, 4.11723128,  -1.21791646, 3.15787980,  4.22611084,
                          9.15096762,  -1.08349136, -2.09532151, -1.46446257, 3.45778871,
                          0.30511562,  -2.00752061, 6.46847712,  1.29474221,  5.19928990};
  const Covariance five = published_covariance();
  const double* next = upper;
  for (size_t i = 0; i < 5; ++i)
    for (size_t j = i; j < 5; ++j) CHECK(five.matrix[i * 5 + j] == doctest::Approx(*next++).epsilon(5e-6));
  struct Known {
    int64_t dim;
    double first, last, trace, values[2];  // first and last element of the diagonal
  };
  for (const Known& k : {Known{3, 10.2518339, 3.2242200, 15.6706409, {11.4511929, 3.3576984}},
                         Known{8, 2.7243712, 5.3318496, 51.3421173, {18.6090050, 12.9442835}},
                         Known{98, 115.8212509, 94.1453018, 9978.8271484, {383.2648315, 359.8405457}}}) {
    CAPTURE(k.dim);
    const auto near = [&](double x) { return doctest::Approx(x).epsilon(1e-6 * double(k.dim)); };
    const Covariance c = published_covariance(k.dim);
    CHECK(c.matrix.front() == near(k.first));
    CHECK(c.matrix.back() == near(k.last));
    CHECK(c.trace() == near(k.trace));
    for (size_t i = 0; i < 2; ++i) CHECK(c.values[i] == near(k.values[i]));
  }
  CHECK(!is_published(4));
  CHECK(!is_published(103));
  CHECK(message_of([] { published_covariance(4); }).find("d = 4") != std::string::npos);
}

// Published Sigma and starts, in double, against numpy with the numbers that JAX draws.
TEST_CASE("pca: figure 6a from the published starts") {
  struct Known {
    int64_t dim;
    double mean, least;
  };
  for (const Known& k : {Known{8, 0.9998, 0.9993}, Known{53, 0.9854, 0.9744}, Known{98, 0.9838, 0.9660}}) {
    CAPTURE(k.dim);
    const Setting s = setting_at(experiment_named("6a", false), k.dim);
    double mean = 0, least = 1;
    const Trace trace = train({.setting = s, .covariance = covariance_of(s, 0), .records = 1});
    REQUIRE(trace.cosine.size() == 10);
    for (const std::vector<double>& cosines : trace.cosine) {
      mean += cosines.back() / 10;
      least = std::min(least, cosines.back());
    }
    CHECK(std::abs(mean - k.mean) < 1e-4);
    CHECK(std::abs(least - k.least) < 1e-4);
  }
}

// The same of figures 3b and 4b: means over the starts by iteration, of three or four digits.
TEST_CASE("pca: figures 3b and 4b from the published starts") {
  struct Known {
    const char* name;
    std::vector<std::pair<int64_t, double>> means;
  };
  for (const Known& k : {Known{"3b",
                               {{1, .336},
                                {100, .539},
                                {200, .716},
                                {300, .823},
                                {500, .889},
                                {1000, .947},
                                {2000, .986},
                                {3000, .994}}},
                         Known{"4b",
                               {{100, .530},
                                {200, .714},
                                {300, .853},
                                {500, .966},
                                {1000, .992},
                                {2000, .998},
                                {5000, .9999}}}}) {
    CAPTURE(k.name);
    const Setting s = experiment_named(k.name, false).setting;
    const Trace trace = train({.setting = s, .covariance = covariance_of(s, 0), .records = s.steps / 100});
    size_t compared = 0;
    for (const auto& known : k.means)
      for (size_t i = 0; i < trace.iterations.size(); ++i) {
        const int64_t iteration = trace.iterations[i];
        if (iteration != known.first) continue;
        double mean = 0;
        for (const std::vector<double>& cosines : trace.cosine) mean += cosines[i] / 10;
        CAPTURE(iteration);
        CHECK(std::abs(mean - known.second) < 6e-4);
        ++compared;
      }
    CHECK(compared == k.means.size());
  }
}
