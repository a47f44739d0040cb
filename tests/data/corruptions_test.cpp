#include "data/corruptions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "data/float_image.h"
#include "data/resize.h"
#include "engine/base/error.h"
#include "tests/corruptions/statistics.h"
#include "tests/needs.h"

using namespace pursuit::data;

namespace {

// A scene of some variety: sky, a disk, stripes, a dark ground. Values stay off the ends of the range.
Image scene(int size, int channels) {
  Image image(size, size, 3);
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x) {
      const double u = (x + 0.5) / size, v = (y + 0.5) / size;
      uint8_t* p = image.at(x, y);
      if (std::hypot(u - 0.45, v - 0.4) < 0.22)
        p[0] = 190, p[1] = 90, p[2] = 50;
      else if (v > 0.7)
        p[0] = 60, p[1] = uint8_t(int(u * 12) % 2 ? 110 : 70), p[2] = 40;
      else
        p[0] = 110, p[1] = uint8_t(130 + 40 * v), p[2] = 200;
    }
  return channels == 1 ? to_grey(image) : image;
}

Image flat(int size, uint8_t value, int channels = 3) {
  Image image(size, size, channels);
  std::fill(image.pixels.begin(), image.pixels.end(), value);
  return image;
}

double psnr(const Image& a, const Image& b) {
  double squares = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    const double d = (int(a.pixels[i]) - int(b.pixels[i])) / 255.0;
    squares += d * d;
  }
  return -10 * std::log10(squares / double(a.pixels.size()) + 1e-12);
}

double mean(const Image& image) {
  double total = 0;
  for (uint8_t v : image.pixels) total += v;
  return total / double(image.pixels.size());
}

double deviation(const Image& image) {
  const double m = mean(image);
  double squares = 0;
  for (uint8_t v : image.pixels) squares += (v - m) * (v - m);
  return std::sqrt(squares / double(image.pixels.size()));
}

}  // namespace

TEST_CASE("the list and the AlexNet errors") {
  CHECK(corruption_names().size() == 15);
  CHECK(corruption_names().front() == "gaussian_noise");
  CHECK(corruption_names()[7] == "snow");
  CHECK(corruption_names().back() == "jpeg_compression");
  double total = 0;
  for (const std::string& name : corruption_names()) total += alexnet_error(name);
  CHECK(total == doctest::Approx(11.834896).epsilon(1e-7));
  CHECK(alexnet_error("brightness") == 0.564592);
  CHECK_THROWS_WITH_AS(alexnet_error("rain"), doctest::Contains("rain"), pursuit::Error);
}

TEST_CASE("wrong arguments throw") {
  const Image image = scene(28, 3);
  CHECK_THROWS_AS(corrupt(image, "rain", 1, 0), pursuit::Error);
  CHECK_THROWS_AS(corrupt(image, "fog", 0, 0), pursuit::Error);
  CHECK_THROWS_AS(corrupt(image, "fog", 6, 0), pursuit::Error);
  CHECK_THROWS_AS(corrupt(Image(), "fog", 1, 0), pursuit::Error);
  CHECK_THROWS_AS(corrupt(image, "frost", 1, 0, {}), pursuit::Error);
  CHECK_THROWS_WITH_AS(read_frost("/nowhere"), doctest::Contains("/nowhere"), pursuit::Error);
}

TEST_CASE("any size, grey and colour; the same seed gives the same picture, another seed another") {
  for (const std::string& name : corruption_names())
    for (int channels : {1, 3}) {
      for (auto [w, h] : {std::pair{1, 1}, {2, 7}, {9, 1}, {28, 28}, {33, 21}, {64, 40}, {250, 230}})
        for (int severity : {1, 5}) {
          const Image image = resize(scene(64, channels), w, h, Filter::bilinear);
          const Image out = corrupt(image, name, severity, 5);
          REQUIRE(out.width == w);
          REQUIRE(out.height == h);
          REQUIRE(out.channels == channels);
        }
      const Image image = scene(28, channels);
      for (int severity = 1; severity <= 5; ++severity) {
        const Image out = corrupt(image, name, severity, 5);
        CHECK(out.pixels == corrupt(image, name, severity, 5).pixels);
        const bool other = out.pixels != corrupt(image, name, severity, 6).pixels;
        CHECK_MESSAGE(other == (pursuit::corruptions::seeds_of(name) > 1), name, " ", severity);
      }
    }
}

TEST_CASE("recognisable at severity 1, worse at severity 5, at 28, 64 and 224 pixels") {
  // The parameters of the others do not grow evenly, or they depend on how edges lie to a grid.
  const std::set<std::string> gets_worse_step_by_step = {"gaussian_noise", "shot_noise",      "impulse_noise",
                                                         "defocus_blur",   "brightness",      "contrast",
                                                         "zoom_blur",      "jpeg_compression"};
  for (int size : {28, 64, 224})
    for (const std::string& name : corruption_names()) {
      const Image image = scene(size, 3);
      const int seeds = (pursuit::corruptions::seeds_of(name) > 1) ? 3 : 1;
      double quality[6] = {};
      for (int severity = 1; severity <= 5; ++severity)
        for (int seed = 0; seed < seeds; ++seed)
          quality[severity] += psnr(corrupt(image, name, severity, uint64_t(seed)), image) / seeds;
      CAPTURE(name);
      CAPTURE(size);
      CHECK(quality[1] > 8);
      CHECK(quality[1] < 45);
      // The first two severities of elastic_transform warp the whole picture, the others ripple it.
      if (name == "elastic_transform")
        CHECK((quality[5] < quality[4] && quality[4] < quality[3]));
      else if (name != "frost")  // whose overlays differ in brightness
        CHECK(quality[5] < quality[1] - 1);
      if (gets_worse_step_by_step.contains(name))
        for (int severity = 2; severity <= 5; ++severity) CHECK(quality[severity] < quality[severity - 1]);
    }
}

TEST_CASE("gaussian_noise has the published deviation") {
  constexpr double sigma[] = {0.08, 0.12, 0.18};  // the others are clipped on a grey ground
  for (int severity = 1; severity <= 3; ++severity) {
    const Image out = corrupt(flat(224, 128), "gaussian_noise", severity, 1);
    CHECK(deviation(out) / 255 == doctest::Approx(sigma[severity - 1]).epsilon(0.02));
    CHECK(std::abs(mean(out) - 128) < 0.6);
  }
}

TEST_CASE("shot_noise is a Poisson count: the variance is the mean over the rate") {
  constexpr double rate[] = {60, 25, 12, 5, 3};
  for (int severity = 1; severity <= 5; ++severity) {
    const uint8_t value = 51;  // 0.2: clipping at 1 is rare
    const Image out = corrupt(flat(224, value), "shot_noise", severity, 1);
    if (severity <= 3) {
      CHECK(deviation(out) / 255 == doctest::Approx(std::sqrt(0.2 / rate[severity - 1])).epsilon(0.02));
      CHECK(std::abs(mean(out) - value) < 0.8);
    }
    // The share of empty pixels is exp(-rate * 0.2).
    const double empty =
        double(std::count(out.pixels.begin(), out.pixels.end(), 0)) / double(out.pixels.size());
    CHECK(std::abs(empty - std::exp(-rate[severity - 1] * 0.2)) < 0.01);
  }
  CHECK(mean(corrupt(flat(28, 0), "shot_noise", 5, 1)) == 0);
}

TEST_CASE("impulse_noise turns the published share of values black or white, half each") {
  constexpr double share[] = {0.03, 0.06, 0.09, 0.17, 0.27};
  for (int severity = 1; severity <= 5; ++severity) {
    const Image out = corrupt(flat(224, 100), "impulse_noise", severity, 1);
    const double n = double(out.pixels.size());
    for (int end : {0, 255})
      CHECK(std::abs(double(std::count(out.pixels.begin(), out.pixels.end(), end)) / n -
                     share[severity - 1] / 2) < 0.004);
    CHECK(std::count(out.pixels.begin(), out.pixels.end(), 100) ==
          int64_t(n) - std::count(out.pixels.begin(), out.pixels.end(), 0) -
              std::count(out.pixels.begin(), out.pixels.end(), 255));
  }
}

TEST_CASE("blurs keep a flat picture and, away from edges, the sum of a dot") {
  for (const char* name : {"defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "elastic_transform",
                           "pixelate", "contrast"})
    for (int size : {28, 100})
      for (int severity = 1; severity <= 5; ++severity) {
        const Image out = corrupt(flat(size, 90), name, severity, 2);
        const auto [low, high] = std::minmax_element(out.pixels.begin(), out.pixels.end());
        CHECK_MESSAGE((*low >= 89 && *high <= 91), name, " ", severity);
      }
  double total = 0, across = 0;
  for (const Tap& tap : disk_taps(6, 0.5, 8)) {
    total += tap.weight;
    across += tap.weight * tap.dx * tap.dx;
  }
  CHECK(total == doctest::Approx(1).epsilon(1e-5));
  CHECK(across == doctest::Approx(6 * 6 / 4.0 + 0.25).epsilon(0.05));  // variance of a disk and of its rim
  // A disk between the points of the grid, and the picture that has it: only the rim blurs.
  total = across = 0;
  for (const Tap& tap : disk_taps(0.05, 0.4, 8)) {
    total += tap.weight;
    across += tap.weight * tap.dx * tap.dx;
  }
  CHECK(total == doctest::Approx(1).epsilon(1e-5));
  CHECK(across > 0.05);
  CHECK(across < 0.4 * 0.4);
  for (int size = 1; size <= 6; ++size) {
    const Image out = corrupt(flat(size, 90), "defocus_blur", 1, 2);
    const auto [low, high] = std::minmax_element(out.pixels.begin(), out.pixels.end());
    CHECK_MESSAGE((*low >= 89 && *high <= 91), size);
  }
  double along = 0;
  for (const Tap& tap : motion_taps(15, 8, 0)) {
    CHECK(tap.dy == 0);
    along += tap.weight * tap.dx;
  }
  CHECK(along == doctest::Approx(8 * std::sqrt(2 / 3.14159265))
                     .epsilon(0.1));  // mean of a half-normal, less half a pixel
}

TEST_CASE("gaussian_blur has the asked width, also when the curve is wider than the picture") {
  FloatImage dot(101, 101, 1);
  dot.row(0, 50)[50] = 1;
  for (double sigma : {0.7, 2.0, 5.0}) {
    const FloatImage out = gaussian_blur(dot, sigma, 4, Border::clamp);
    double total = 0, spread = 0;
    for (int y = 0; y < 101; ++y)
      for (int x = 0; x < 101; ++x) {
        total += out.row(0, y)[x];
        spread += out.row(0, y)[x] * (x - 50) * (x - 50);
      }
    CHECK(total == doctest::Approx(1).epsilon(1e-4));
    CHECK(std::sqrt(spread) == doctest::Approx(sigma).epsilon(0.01));
  }
  FloatImage ramp(8, 8, 1);
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 8; ++x) ramp.row(0, y)[x] = float(x) / 7;
  const FloatImage smooth = gaussian_blur(ramp, 100, 3, Border::mirror);
  for (float v : smooth.values) CHECK(v == doctest::Approx(0.5).epsilon(0.02));
}

TEST_CASE("border_index") {
  CHECK(border_index(-1, 5, Border::clamp) == 0);
  CHECK(border_index(9, 5, Border::clamp) == 4);
  CHECK(border_index(-1, 5, Border::mirror) == 1);
  CHECK(border_index(5, 5, Border::mirror) == 3);
  CHECK(border_index(8, 5, Border::mirror) == 0);
  CHECK(border_index(-1003, 5, Border::mirror) == 3);
  CHECK(border_index(7, 1, Border::mirror) == 0);
}

TEST_CASE("contrast: exact formula") {
  const Image image = scene(32, 3);
  constexpr double factor[] = {0.4, 0.3, 0.2, 0.1, 0.05};
  for (int severity = 1; severity <= 5; ++severity) {
    const Image out = corrupt(image, "contrast", severity, 0);
    for (size_t c = 0; c < 3; ++c) {
      double average = 0;
      for (size_t i = c; i < image.pixels.size(); i += 3) average += image.pixels[i] / 1024.0;
      for (size_t i = c; i < image.pixels.size(); i += 3) {
        const double want = (image.pixels[i] - average) * factor[severity - 1] + average;
        CHECK(std::abs(out.pixels[i] - (want - 0.5)) <= 0.51);  // cut off
      }
    }
  }
}

TEST_CASE("brightness: value grows, hue and saturation stay") {
  Image image(3, 1, 3);
  image.pixels = {100, 50, 25, 0, 0, 0, 255, 128, 0};
  const Image out = corrupt(image, "brightness", 2, 0);  // + 0.2, which is 51
  CHECK(out.pixels == std::vector<uint8_t>{151, 75, 37, 51, 51, 51, 255, 128, 0});
  CHECK(corrupt(flat(4, 100, 1), "brightness", 5, 0).pixels == flat(4, 227, 1).pixels);
}

TEST_CASE("pixelate has as many blocks as the factor says") {
  Image ramp(100, 100, 1);
  for (int y = 0; y < 100; ++y)
    for (int x = 0; x < 100; ++x) *ramp.at(x, y) = uint8_t(2 * x);
  constexpr int blocks[] = {60, 50, 40, 30, 25};
  for (int severity = 1; severity <= 5; ++severity) {
    const Image out = corrupt(ramp, "pixelate", severity, 0);
    const std::set<uint8_t> levels(out.pixels.begin(), out.pixels.begin() + 100);
    CHECK(int(levels.size()) == blocks[severity - 1]);
  }
}

TEST_CASE("fog, frost and snow: closed forms on black and white") {
  // Fog on white: (1 + amount * cloud) / (1 + amount) runs over the whole of 1 / (1 + amount) .. 1.
  const Image fog = corrupt(flat(64, 255), "fog", 5, 3);
  const auto [low, high] = std::minmax_element(fog.pixels.begin(), fog.pixels.end());
  CHECK(*low == doctest::Approx(255 / 4.0).epsilon(0.02));
  CHECK(*high == 255);
  // Clouds repeat in pictures that are larger than they are.
  const Image wide = corrupt(Image(4196, 1, 1), "fog", 1, 3);
  CHECK(std::equal(wide.pixels.begin(), wide.pixels.begin() + 100, wide.pixels.begin() + 4096));
  // Frost is a weighted sum of the picture, here 60, and the overlay, here 120.
  constexpr double expected[] = {108, 120, 126, 123, 126};
  for (int severity = 1; severity <= 5; ++severity)
    CHECK(corrupt(flat(28, 60), "frost", severity, 3, {flat(300, 120)}).pixels ==
          flat(28, uint8_t(expected[severity - 1])).pixels);
  // Snow only brightens.
  const Image image = scene(64, 3);
  for (int severity = 1; severity <= 5; ++severity) {
    const Image snow = corrupt(image, "snow", severity, 3);
    for (size_t i = 0; i < image.pixels.size(); ++i) REQUIRE(snow.pixels[i] + 1 >= image.pixels[i]);
  }
}

TEST_CASE("jpeg_compression is an encoder's round trip") {
  const Image image = scene(64, 3);
  const auto bytes = encode_jpeg(image, 25);
  CHECK(corrupt(image, "jpeg_compression", 1, 0).pixels ==
        decode_image(bytes.data(), bytes.size(), "memory").pixels);
}

TEST_CASE("frost overlays: drawn ones are of several brightnesses, photographs can be read") {
  REQUIRE(drawn_frost().size() == 5);
  for (const Image& sheet : drawn_frost()) {
    CHECK(std::min(sheet.width, sheet.height) >= 224);
    CHECK(mean(sheet) > 60);
    CHECK(mean(sheet) < 235);
    CHECK(deviation(sheet) > 15);
  }
}

DATA_TEST_CASE("photographs of frost in place of drawn ones", "robustness/frost") {
  const std::vector<Image> photographs = read_frost(shared_data("robustness/frost"));
  CHECK(photographs.size() == 5);
  const Image image = scene(224, 3);
  CHECK(psnr(corrupt(image, "frost", 5, 1, photographs), image) <
        psnr(corrupt(image, "frost", 1, 1, photographs), image));
}
