#include "apps/study/statistics.h"

#include <doctest/doctest.h>

#include "engine/base/error.h"

using namespace pursuit;

// The constants are scipy's: scipy.stats.t.ppf((1 + confidence) / 2, degrees).
TEST_CASE("statistics: quantiles of Student's t") {
  struct Row {
    int64_t degrees;
    double confidence, t;
  };
  for (const Row& row :
       {Row{1, 0.95, 12.706204736174694}, Row{2, 0.95, 4.302652729749462}, Row{3, 0.95, 3.1824463052837078},
        Row{4, 0.95, 2.7764451051977934}, Row{5, 0.95, 2.5705818356363146}, Row{9, 0.95, 2.262157162798205},
        Row{10, 0.95, 2.228138851986274}, Row{29, 0.95, 2.045229642132703},
        Row{100, 0.95, 1.9839715185235518}, Row{2, 0.5, 0.8164965809277261},
        Row{7, 0.99, 3.4994832973504924}}) {
    CAPTURE(row.degrees);
    CAPTURE(row.confidence);
    CHECK(apps::student_t(row.degrees, row.confidence) == doctest::Approx(row.t).epsilon(1e-10));
  }
  CHECK_THROWS_AS(apps::student_t(0), Error);
  CHECK_THROWS_AS(apps::student_t(1, 1), Error);
}

// scipy.stats.ttest_rel(a, b).confidence_interval(0.95)
TEST_CASE("statistics: the interval of paired differences") {
  const std::vector<double> a = {81.2, 80.1, 82.7, 79.9}, b = {80.0, 79.7, 80.1, 80.3};
  const apps::PairedDifference d = apps::paired_difference(a, b);
  CHECK(d.pairs == 4);
  CHECK(d.mean == doctest::Approx(0.9500000000000028).epsilon(1e-12));
  CHECK(d.low() == doctest::Approx(-1.0856879596000706).epsilon(1e-10));
  CHECK(d.high() == doctest::Approx(2.9856879596000763).epsilon(1e-10));
  CHECK_THROWS_AS(apps::paired_difference({1}, {2}), Error);
  CHECK_THROWS_AS(apps::paired_difference({1, 2}, {2}), Error);
}

// numpy.std(values, ddof=1)
TEST_CASE("statistics: mean and sample standard deviation") {
  CHECK(apps::mean_of({1, 2, 4, 9}) == 4);
  CHECK(apps::deviation_of({1, 2, 4, 9}) == doctest::Approx(3.559026084010437));
  CHECK(apps::deviation_of({3}) == 0);
}
