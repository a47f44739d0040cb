#include "data/interactive/robot_user.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "data/interactive/distance.h"
#include "data/label_key.h"
#include "engine/base/error.h"
#include "engine/base/random.h"

using namespace pursuit;
using namespace pursuit::data;

namespace {

// A mask from rows of '#' (1), '.' (0) and '?' (ignored).
Image mask(const std::vector<std::string>& rows) {
  Image m(int(rows[0].size()), int(rows.size()), 1);
  for (size_t y = 0; y < rows.size(); ++y)
    for (size_t x = 0; x < rows[y].size(); ++x)
      *m.at(int(x), int(y)) = rows[y][x] == '#' ? 1 : rows[y][x] == '?' ? kIgnoredLabel : 0;
  return m;
}

Image random_mask(int width, int height, double share, uint64_t seed) {
  Random random(seed, 1);
  Image m(width, height, 1);
  for (uint8_t& p : m.pixels) p = random.uniform() < share;
  return m;
}

// The definition: over all pixels of the picture and of a border around it.
int64_t nearest_unmarked(const Image& m, int x, int y) {
  int64_t best = std::numeric_limits<int64_t>::max();
  for (int v = -1; v <= m.height; ++v)
    for (int u = -1; u <= m.width; ++u) {
      const bool inside = u >= 0 && v >= 0 && u < m.width && v < m.height;
      if (inside && *m.at(u, v)) continue;
      best = std::min(best, int64_t(u - x) * (u - x) + int64_t(v - y) * (v - y));
    }
  return best;
}

}  // namespace

TEST_CASE("squared distances: as by trying every pixel") {
  const std::pair<int, int> sizes[] = {{1, 1}, {1, 9}, {9, 1}, {2, 2}, {17, 5}, {12, 23}, {31, 30}};
  for (const auto& size : sizes)
    for (const double share : {0.0, 0.5, 0.9, 0.98, 1.0}) {
      const int width = size.first, height = size.second;
      CAPTURE(width);
      CAPTURE(height);
      CAPTURE(share);
      const Image m = random_mask(width, height, share, uint64_t(width * height));
      const std::vector<int64_t> got = squared_distances(m);
      REQUIRE(got.size() == m.pixels.size());
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) REQUIRE(got[size_t(y * width + x)] == nearest_unmarked(m, x, y));
    }
}

TEST_CASE("components: what is reached from pixel to pixel") {
  const Components c = components(mask({"##..#",  //
                                        "#?.##",  //
                                        ".?#..",  //
                                        "..#.#"}),
                                  kIgnoredLabel);
  const std::vector<int32_t> wanted = {0, 0,  1, 1, 2,  //
                                       0, -1, 1, 2, 2,  //
                                       3, -1, 4, 5, 5,  //
                                       3, 3,  4, 5, 6};
  CHECK(c.of_pixel == wanted);
  CHECK(c.area == std::vector<int64_t>{3, 3, 3, 3, 2, 3, 1});
  CHECK(components(Image(0, 0, 1), kIgnoredLabel).area.empty());
}

TEST_CASE("robot user: first the deepest pixel of the object, then the deeper error") {
  const Image object = mask({".......",  //
                             ".#####.",  //
                             ".#####.",  //
                             ".#####.",  //
                             ".......",  //
                             "......."});
  const auto first = next_click(object, mask({6, std::string(7, '.')}), {});
  REQUIRE(first);
  CHECK(first->positive);
  CHECK(first->x == 2);  // of (2, 2), (3, 2) and (4, 2), all 2 from outside, the first
  CHECK(first->y == 2);
  const auto second = next_click(object, mask({6, std::string(7, '.')}), {*first});
  REQUIRE(second);
  CHECK(second->x == 3);
  CHECK(second->y == 2);

  // Wrongly found pixels as deep as missed ones are clicked first.
  const auto tie = next_click(mask({"#.."}), mask({"..#"}), {});
  REQUIRE(tie);
  CHECK(!tie->positive);
  CHECK(tie->x == 2);

  CHECK(!next_click(object, object, {}));
  // The only error was clicked already.
  CHECK(!next_click(mask({"#.."}), mask({"..."}), {{0, 0, true}}));
  CHECK_THROWS_AS(next_click(object, mask({"#.."}), {}), Error);
  CHECK_THROWS_WITH(next_click(mask({"#.."}), mask({"..."}), {{3, 0, true}}), doctest::Contains("(3, 0)"));
}

TEST_CASE("robot user: the picture's border is no error, and ignored pixels are none") {
  // Columns 0 to 2 are missed; the middle one is deepest, as outside the picture nothing is.
  const auto click = next_click(mask({"###.", "###.", "###."}), mask({3, "...."}), {});
  REQUIRE(click);
  CHECK(click->x == 1);
  CHECK(click->y == 1);
  CHECK(!next_click(mask({"?.?"}), mask({"#.."}), {}));
  CHECK(!next_click(mask({"?.?"}), mask({"#.#"}), {}));
}

TEST_CASE("robot user: random clicks are into the deep half of the errors, and reach all of it") {
  data::Image object(40, 30, 1), mask(40, 30, 1);
  for (int y = 5; y < 25; ++y)
    for (int x = 4; x < 36; ++x) *object.at(x, y) = 1;
  // The distance to the nearest pixel outside, by hand: a rectangle's depth is that to its nearest side.
  const auto depth = [](int x, int y) { return std::min({x - 3, 36 - x, y - 4, 25 - y}); };
  std::set<std::pair<int, int>> deep, found;
  for (int y = 5; y < 25; ++y)
    for (int x = 4; x < 36; ++x)
      if (2 * depth(x, y) > 10) deep.insert({x, y});
  Random random(3, 0);
  for (int i = 0; i < 5000; ++i) {
    const auto click = data::next_click(object, mask, {}, &random);
    REQUIRE(click);
    CHECK(click->positive);
    found.insert({click->x, click->y});
  }
  CHECK(deep.size() > 50);
  CHECK(found == deep);
}

TEST_CASE("interactive scores by hand") {
  CHECK(intersection_over_union(mask({"##..?"}), mask({".##.#"})) == doctest::Approx(1 / 3.0));
  CHECK(intersection_over_union(mask({"...."}), mask({"...."})) == 1);
  ClickCurve early(kMostClicks, 0.95), late(kMostClicks, 0.2), never(kMostClicks, 0.5);
  early[0] = 0.5;
  late[19] = 0.9;
  const ClickCount count = number_of_clicks({early, late, never}, 0.9);
  CHECK(count.mean == doctest::Approx((2 + 20 + 20) / 3.0));
  CHECK(count.never == 1);
  CHECK_THROWS_AS(number_of_clicks({}, 0.9), Error);
  CHECK_THROWS_AS(number_of_clicks({{0.5}}, 0.9), Error);
}
