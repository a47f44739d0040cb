#include "data/augment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "data/affine.h"
#include "data/colour.h"
#include "data/rand_augment.h"
#include "engine/base/error.h"
#include "tests/data/drawn_images.h"

using namespace pursuit::data;
using pursuit::Random;

TEST_CASE("colour operations agree with Pillow") {
  const Image image = formula(4, 3, 3);
  CHECK(largest_difference(
            auto_contrast(image),
            {0,   115, 202, 38,  158, 240, 77,  202, 15, 116, 246, 53,  61,  185, 0,   113, 244, 51,
             166, 0,   102, 218, 59,  154, 123, 255, 60, 189, 26,  125, 255, 100, 190, 53,  175, 255}) == 0);
  CHECK(largest_difference(
            adjust_saturation(image, 1.7),
            {0,   114, 255, 0,   151, 255, 36, 208, 0, 73,  245, 0,   21,  193, 0,   71, 243, 0,
             226, 0,   135, 255, 13,  185, 80, 252, 0, 248, 0,   157, 255, 48,  220, 0,  165, 255}) == 0);
  CHECK(largest_difference(
            adjust_contrast(image, 0.4),
            {73,  114, 154, 88,  129, 169, 103, 143, 81, 118, 158, 96,  97,  137, 75,  117, 157, 95,
             137, 75,  115, 157, 95,  135, 121, 161, 99, 146, 84,  124, 171, 109, 149, 94,  134, 175}) == 0);
  CHECK(largest_difference(
            adjust_sharpness(image, 1.8),
            {0,   101, 202, 37,  138, 239, 74,  175, 20, 111, 212, 57,  59,  160, 5,   109, 255, 23,
             175, 0,   89,  209, 54,  155, 118, 219, 64, 181, 26,  127, 244, 89,  190, 51,  152, 253}) == 0);
  CHECK(largest_difference(
            adjust_brightness(image, 1.5),
            {0,   151, 255, 55,  207, 255, 111, 255, 30, 166, 255, 85,  88,  240, 7,   163, 255, 82,
             238, 6,   157, 255, 81,  232, 177, 255, 96, 255, 39,  190, 255, 133, 255, 76,  228, 255}) == 0);
  const Image equal = equalize(formula(40, 30, 3));
  CHECK(largest_difference(crop(equal, 0, 0, 4, 1), {0, 117, 229, 50, 167, 255, 93, 210, 22, 135, 252, 63}) ==
        0);
}

TEST_CASE("colour operations: closed forms") {
  const Image image = formula(20, 15, 3), grey = formula(20, 15, 1);
  for (const Image& x : {image, grey}) {
    CHECK(invert(invert(x)).pixels == x.pixels);
    CHECK(posterize(x, 8).pixels == x.pixels);
    CHECK(solarize(x, 256).pixels == x.pixels);
    CHECK(solarize(x, 0).pixels == invert(x).pixels);
    CHECK(adjust_brightness(x, 1).pixels == x.pixels);
    CHECK(adjust_contrast(x, 1).pixels == x.pixels);
    CHECK(adjust_saturation(x, 1).pixels == x.pixels);
    CHECK(adjust_sharpness(x, 1).pixels == x.pixels);
    const Image stripped = posterize(x, 3), added = solarize_add(x, 30, 128);
    for (size_t i = 0; i < x.pixels.size(); ++i) {
      CHECK(stripped.pixels[i] == x.pixels[i] / 32 * 32);
      CHECK(added.pixels[i] == (x.pixels[i] < 128 ? x.pixels[i] + 30 : x.pixels[i]));
    }
  }
  CHECK(adjust_saturation(image, 0).pixels == to_rgb(to_grey(image)).pixels);
  CHECK(adjust_saturation(grey, 0).pixels == grey.pixels);
  Image flat(5, 5, 3);
  std::fill(flat.pixels.begin(), flat.pixels.end(), uint8_t(77));
  CHECK(auto_contrast(flat).pixels == flat.pixels);
  CHECK(equalize(flat).pixels == flat.pixels);
  CHECK_THROWS_AS(posterize(image, 9), pursuit::Error);
  CHECK_THROWS_AS(blend(image, grey, 0.5), pursuit::Error);
}

TEST_CASE("geometric operations agree with Pillow") {
  const Image image = formula(6, 4, 1);
  const Colour fill = {9, 9, 9};
  CHECK(largest_difference(rotate(image, 25, Filter::bilinear, fill),
                           {9,  65,  99,  117, 58,  77,  16,  81,  157, 145, 82,  162,
                            54, 128, 212, 105, 154, 125, 106, 164, 188, 97,  166, 9}) <= 1);
  CHECK(largest_difference(rotate(image, 25, Filter::bicubic, fill),
                           {9,  51,  88,  117, 19,  73,  11, 74,  171, 144, 56,  172,
                            49, 129, 255, 82,  162, 133, 92, 172, 208, 57,  202, 9}) <= 1);
  CHECK(largest_difference(shear_x(image, 0.3, Filter::bilinear, fill),
                           {5,   42,  79, 116, 153, 185, 81,  131, 181, 116, 25, 53,
                            165, 228, 99, 98,  161, 9,   244, 76,  152, 216, 45, 9}) <= 1);
}

TEST_CASE("geometric operations: closed forms") {
  const Colour fill = {1, 2, 3};
  for (int channels : {1, 3})
    for (Filter filter : {Filter::bilinear, Filter::bicubic}) {
      const Image image = formula(9, 9, channels);
      CHECK(rotate(image, 0, filter, fill).pixels == image.pixels);
      CHECK(shear_x(image, 0, filter, fill).pixels == image.pixels);
      const Image moved = translate(image, 2, -3, filter, fill);
      for (int y = 0; y < 9; ++y)
        for (int x = 0; x < 9; ++x) {
          const bool inside = x + 2 < 9 && y - 3 >= 0;
          const uint8_t* want = inside ? image.at(x + 2, y - 3) : fill.data();
          CHECK(std::equal(want, want + channels, moved.at(x, y)));
        }
      // A quarter turn counter-clockwise moves the right column to the top. sin and cos are not exact: 1 grey
      // level.
      const Image turned = rotate(image, 90, filter, fill);
      for (int i = 1; i < 8; ++i) CHECK(std::abs(int(*turned.at(i, 1)) - int(*image.at(7, i))) <= 1);
    }
  CHECK_THROWS_AS(rotate(formula(3, 3, 3), 5, Filter::box, fill), pursuit::Error);
}

TEST_CASE("draw_crop keeps to the picture, the areas and the ratios") {
  Random random(1);
  double mean_area = 0;
  constexpr int draws = 4000;
  for (int i = 0; i < draws; ++i) {
    const Box box = draw_crop(300, 300, random);
    REQUIRE(box.x >= 0);
    REQUIRE(box.y >= 0);
    REQUIRE(box.x + box.width <= 300);
    REQUIRE(box.y + box.height <= 300);
    const double area = box.width * box.height / 90000.0, ratio = double(box.width) / box.height;
    CHECK(area > 0.078);
    CHECK(ratio > 0.74);
    CHECK(ratio < 1.36);
    mean_area += area / draws;
  }
  // Uniform over 0.08..1 would have 0.54; large elongated boxes that do not fit are drawn again.
  CHECK(mean_area > 0.48);
  CHECK(mean_area < 0.54);

  const Box wide = draw_crop(1000, 10, random, {1.0, 1.0});  // nothing fits: the middle, at the widest ratio
  CHECK(wide.height == 10);
  CHECK(wide.width == 13);
  CHECK(wide.x == 493);
  const Box tall = draw_crop(10, 1000, random, {1.0, 1.0});
  CHECK(tall.width == 10);
  CHECK(tall.height == 13);
  const Box one = draw_crop(1, 1, random);
  CHECK(one.width == 1);
  CHECK(one.height == 1);
}

TEST_CASE("crops and flips") {
  Random random(2);
  const Image image = formula(50, 40, 3);
  const Image out = random_resized_crop(image, 24, random);
  CHECK(out.width == 24);
  CHECK(out.height == 24);
  const Image whole = random_resized_crop(formula(30, 30, 1), 30, random, {1.0, 1.0, 1.0, 1.0});
  CHECK(whole.pixels == formula(30, 30, 1).pixels);

  const Image small = formula(28, 28, 1);
  std::set<std::vector<uint8_t>> seen;
  for (int i = 0; i < 2000; ++i) {
    const Image moved = random_padded_crop(small, 28, 2, random);
    CHECK(moved.width == 28);
    seen.insert(moved.pixels);
  }
  CHECK(seen.size() == 25);  // 5 x 5 shifts
  CHECK_THROWS_AS(random_padded_crop(small, 40, 2, random), pursuit::Error);

  int flips = 0;
  for (int i = 0; i < 2000; ++i) flips += random_flip(small, random).pixels != small.pixels;
  CHECK(std::abs(flips - 1000) < 120);  // 5 standard deviations
}

TEST_CASE("colour_jitter: no strength changes nothing, brightness alone is a factor") {
  Random random(3);
  const Image image = formula(20, 20, 3);
  CHECK(colour_jitter(image, random, {0, 0, 0}).pixels == image.pixels);
  Image flat(4, 4, 3);
  std::fill(flat.pixels.begin(), flat.pixels.end(), uint8_t(100));
  int low = 255, high = 0;
  for (int i = 0; i < 1000; ++i) {
    const int v = colour_jitter(flat, random, {0.4, 0, 0}).pixels[0];
    low = std::min(low, v);
    high = std::max(high, v);
  }
  CHECK(low >= 59);
  CHECK(low <= 62);
  CHECK(high >= 138);
  CHECK(high <= 140);
  CHECK(colour_jitter(image, random).pixels != image.pixels);
}

TEST_CASE("rand_augment: every operation works on grey and colour and small pictures, and does something") {
  CHECK(rand_augment_names().size() == 15);
  Random random(4);
  for (const std::string& name : rand_augment_names())
    for (int channels : {1, 3})
      for (auto [w, h] : {std::pair{1, 1}, {5, 2}, {28, 28}, {40, 31}}) {
        const Image image = formula(w, h, channels);
        bool changed = false;
        for (int i = 0; i < 8; ++i) {
          const Image out = apply_augmentation(image, name, 9, Filter::bilinear, {124, 116, 104}, random);
          REQUIRE(out.width == w);
          REQUIRE(out.height == h);
          REQUIRE(out.channels == channels);
          changed = changed || out.pixels != image.pixels;
        }
        const bool neutral = (channels == 1 && name == "ColorIncreasing") || name == "AutoContrast";
        if (w >= 28 && !neutral) CHECK_MESSAGE(changed, name);
      }
  CHECK_THROWS_WITH_AS(apply_augmentation(formula(3, 3, 3), "Twirl", 9, Filter::bilinear, {}, random),
                       doctest::Contains("Twirl"), pursuit::Error);
}

TEST_CASE("rand_augment: magnitudes as in timm's increasing set") {
  Random random(5);
  const Image image = formula(30, 20, 3);
  const Colour fill = {124, 116, 104};
  const auto apply = [&](const char* name, double magnitude) {
    return apply_augmentation(image, name, magnitude, Filter::bilinear, fill, random);
  };
  const auto one_of = [](const Image& got, const Image& a, const Image& b) {
    return got.pixels == a.pixels || got.pixels == b.pixels;
  };
  CHECK(apply("PosterizeIncreasing", 9).pixels == posterize(image, 1).pixels);
  CHECK(apply("PosterizeIncreasing", 5).pixels == posterize(image, 2).pixels);
  CHECK(apply("PosterizeIncreasing", 10).pixels == std::vector<uint8_t>(image.pixels.size(), 0));
  CHECK(apply("SolarizeIncreasing", 9).pixels == solarize(image, 26).pixels);
  CHECK(apply("SolarizeAdd", 9).pixels == solarize_add(image, 99, 128).pixels);
  CHECK(one_of(apply("Rotate", 9), rotate(image, 27, Filter::bilinear, fill),
               rotate(image, -27, Filter::bilinear, fill)));
  CHECK(one_of(apply("ContrastIncreasing", 9), adjust_contrast(image, 1.81), adjust_contrast(image, 0.19)));
  CHECK(one_of(apply("ShearY", 10), shear_y(image, 0.3, Filter::bilinear, fill),
               shear_y(image, -0.3, Filter::bilinear, fill)));
  CHECK(one_of(apply("TranslateXRel", 10), translate(image, 13.5, 0, Filter::bilinear, fill),
               translate(image, -13.5, 0, Filter::bilinear, fill)));
}

TEST_CASE("rand_augment: reproducible, and applied as often as its probability says") {
  const Image image = formula(16, 16, 3);
  Random a(6), b(6);
  int unchanged = 0;
  for (int i = 0; i < 1000; ++i) {
    const Image first = rand_augment(image, a);
    CHECK(first.pixels == rand_augment(image, b).pixels);
    unchanged += first.pixels == image.pixels;
  }
  // Neither of two operations with probability 1/4; AutoContrast may add to it on a picture that spans
  // 0..255.
  CHECK(unchanged > 190);
  CHECK(unchanged < 380);
  Random c(7);
  RandAugment never;
  never.probability = 0;
  CHECK(rand_augment(image, c, never).pixels == image.pixels);
  // Every geometric operation is bicubic: nothing is drawn for it.
  RandAugment cubic, linear;
  cubic.filter = Filter::bicubic;
  linear.filter = Filter::bilinear;
  int others = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random d(seed), e(seed), f(seed);
    const Image out = rand_augment(image, d);
    CHECK(out.pixels == rand_augment(image, e, cubic).pixels);
    others += out.pixels != rand_augment(image, f, linear).pixels;
  }
  CHECK(others > 20);
}

TEST_CASE("to_planes: channel after channel") {
  for (int channels : {1, 3}) {
    const Image image = formula(7, 5, channels);
    std::vector<uint8_t> chw(image.pixels.size());
    to_planes(image, chw);
    CHECK_THROWS_AS(to_planes(image, std::span(chw).first(chw.size() - 1)), pursuit::Error);
    Image torn = image;
    torn.pixels.pop_back();
    CHECK_THROWS_AS(to_planes(torn, chw), pursuit::Error);
    for (int c = 0; c < channels; ++c)
      for (int y = 0; y < 5; ++y)
        for (int x = 0; x < 7; ++x) CHECK(chw[size_t((c * 5 + y) * 7 + x)] == image.at(x, y)[c]);
  }
}

TEST_CASE("draw_erasing: a box within the picture, area and frequency as asked") {
  Random random(8);
  constexpr int width = 80, height = 50, draws = 1500;
  int erased = 0;
  double smallest = 1, largest = 0;
  for (int i = 0; i < draws; ++i) {
    const Box box = draw_erasing(width, height, random);
    const double share = double(box.width) * box.height / (width * height);
    if (share == 0) continue;
    ++erased;
    CHECK(box.x >= 0);
    CHECK(box.y >= 0);
    CHECK(box.x + box.width <= width);
    CHECK(box.y + box.height <= height);
    smallest = std::min(smallest, share), largest = std::max(largest, share);
  }
  CHECK(std::abs(erased - draws / 4) < 90);  // 5 standard deviations
  CHECK(smallest > 0.015);
  CHECK(smallest < 0.03);
  CHECK(largest > 0.31);
  CHECK(largest < 0.36);
}
