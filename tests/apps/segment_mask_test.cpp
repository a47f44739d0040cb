#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "apps/page/lettering.h"
#include "apps/pictures/mask_picture.h"
#include "engine/base/error.h"

using namespace pursuit;
using namespace pursuit::apps;

namespace {

const std::vector<std::string> names = {"road", "sign symbol", "sky"};
const std::vector<data::Rgb> colours = {{128, 0, 0}, {0, 128, 0}, {10, 20, 30}};

data::Image labels_of(const std::vector<uint8_t>& values, int width) {
  data::Image labels(width, int(values.size()) / width, 1);
  labels.pixels = values;
  return labels;
}

bool holds(const data::Image& image, const data::Rgb& colour) {
  for (size_t i = 0; i < image.pixels.size(); i += 3)
    if (std::equal(colour.begin(), colour.end(), &image.pixels[i])) return true;
  return false;
}

}  // namespace

TEST_CASE("mask: classes have their colours, ignored pixels are black") {
  const data::Image mask = colour_mask(labels_of({0, 1, 255, 2}, 2), colours);
  CHECK(mask.width == 2);
  CHECK(mask.pixels == std::vector<uint8_t>{128, 0, 0, 0, 128, 0, 0, 0, 0, 10, 20, 30});
  CHECK_THROWS_AS(colour_mask(labels_of({3}, 1), colours), Error);
}

TEST_CASE("overlay: mixes by the opacity, grey pictures too") {
  data::Image picture(1, 1, 1);
  picture.pixels = {100};
  const data::Image mask = colour_mask(labels_of({0}, 1), colours);
  CHECK(overlay(picture, mask, 0.25).pixels == std::vector<uint8_t>{107, 75, 75});
  CHECK(overlay(picture, mask, 1).pixels == mask.pixels);
  CHECK_THROWS_AS(overlay(data::Image(2, 1, 3), mask), Error);
}

TEST_CASE("legend: a line for each class that is there, the largest first") {
  const data::Image labels = labels_of({2, 2, 2, 0, 255, 255}, 3);
  const std::vector<ClassShare> shares = class_shares(labels, 3);
  REQUIRE(shares.size() == 2);
  CHECK(shares[0].index == 2);
  CHECK(shares[0].share == doctest::Approx(0.75));
  CHECK(shares[1].index == 0);
  const data::Image picture = legend(labels, names, colours);
  CHECK(holds(picture, colours[0]));
  CHECK(!holds(picture, colours[1]));
  CHECK(holds(picture, colours[2]));
  CHECK(picture.height > legend(labels_of({0}, 1), names, colours).height);
  CHECK(legend(labels_of({255}, 1), names, colours).height > 0);
}

TEST_CASE("lettering: characters differ, what is outside is left out") {
  const apps::Lettering letters{.scale = 2};
  CHECK(letters.width("Ab 1") == 4 * 12);
  CHECK(letters.width("wéird") == 5 * 12);
  const auto drawn = [&](const std::string& text) {
    data::Image picture(16, 20, 3);
    letters.draw(picture, 0, 0, text, {255, 255, 255});
    return picture.pixels;
  };
  const std::string all = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,:;%()/'&+=# ";
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j) CHECK_MESSAGE(drawn({all[i]}) != drawn({all[j]}), all[i], " and ", all[j]);
  CHECK(drawn("a") == drawn("A"));
  CHECK(drawn("é") == drawn("\xff"));
  data::Image picture(9, 9, 3);
  letters.draw(picture, -7, -5, "HELLO", {1, 2, 3});
  letters.draw(picture, 100, 100, "HELLO", {1, 2, 3});
  CHECK(holds(picture, {1, 2, 3}));
}
