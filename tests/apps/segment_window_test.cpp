#include <doctest/doctest.h>

#include <cmath>

#include "apps/segment/predictor.h"
#include "engine/base/random.h"
#include "engine/core/shapes_only.h"
#include "engine/ops.h"
#include "nn/segmenter.h"
#include "tests/differences.h"

using namespace pursuit;
using namespace pursuit::segment;
using nn::sliding_window_logits, nn::window_starts;

namespace {

nn::SegmenterConfig small_model() {
  nn::SegmenterConfig c;
  c.encoder.image = 16;
  c.encoder.width = 24;
  c.encoder.patch = 4;
  c.encoder.dim = 12;
  c.encoder.depth = 1;
  c.encoder.heads = 2;
  c.encoder.classes = 5;
  c.decoder = nn::SegmenterDecoder::linear;
  return c;
}

data::Image noise_picture(int width, int height) {
  data::Image image(width, height, 3);
  Random random(3);
  for (uint8_t& p : image.pixels) p = uint8_t(random.below(256));
  return image;
}

// Classes are the channels: the brightest one wins.
Predictor brightest() {
  Predictor p;
  p.model = [](const Tensor& windows) { return windows; };
  p.mean = {0, 0, 0};
  p.std = {1, 1, 1};
  p.views.window = {.height = 7, .width = 9, .stride = 5, .batch = 2};
  return p;
}

}  // namespace

TEST_CASE("sliding window: windows cover a side, the last one ends with it") {
  CHECK(window_starts(10, 4, 4) == std::vector<int64_t>{0, 4, 6});
  CHECK(window_starts(12, 4, 4) == std::vector<int64_t>{0, 4, 8});
  CHECK(window_starts(9, 4, 2) == std::vector<int64_t>{0, 2, 4, 5});
  CHECK(window_starts(4, 4, 4) == std::vector<int64_t>{0});
  CHECK(window_starts(3, 4, 4) == std::vector<int64_t>{0});
}

TEST_CASE("sliding window: a window that covers the picture is the whole picture") {
  const nn::Segmenter model(small_model());
  uint64_t stream = 0;
  for (const nn::NamedTensor& p : model.parameters())
    copy_values(*p.tensor, normal(p.tensor->shape(), 0, 0.4, 7, stream++));
  const Tensor picture = normal({1, 3, 16, 24}, 0, 1, 1, 0);
  const Tensor whole = upsample_bilinear(model.forward(picture), 16, 24);
  const auto forward = [&](const Tensor& windows) { return model.forward(windows); };
  const Tensor got = sliding_window_logits(forward, picture, {.height = 16, .width = 24});
  CHECK(largest_difference(got, whole) == 0);
  CHECK(largest_difference(whole, zeros(whole.shape())) > 0.1);
}

TEST_CASE("sliding window: overlaps are averaged, every pixel once") {
  const Tensor picture = normal({1, 3, 23, 31}, 0, 1, 2, 0);
  for (const int64_t stride : {0, 3, 8}) {
    int64_t windows = 0, most = 0;
    const auto same = [&](const Tensor& w) {
      if (!shapes_only()) windows += w.size(0);
      most = std::max(most, w.size(0));
      CHECK(w.size(2) == 8);
      CHECK(w.size(3) == 12);
      return w;
    };
    const Tensor got =
        sliding_window_logits(same, picture, {.height = 8, .width = 12, .stride = stride, .batch = 4});
    CHECK(largest_difference(got, picture) < 1e-6);
    CHECK(most == 4);
    CHECK(windows == int64_t(window_starts(23, 8, stride ? stride : 8).size() *
                             window_starts(31, 12, stride ? stride : 12).size()));
  }
  // Two windows of three columns over four: the outer columns are seen once, the inner ones twice.
  double value = 1;
  const auto counter = [&](const Tensor& w) { return full({w.size(0), 1, 1, 3}, value++); };
  const Tensor got =
      sliding_window_logits(counter, zeros({1, 3, 1, 4}), {.height = 1, .width = 3, .stride = 1, .batch = 1});
  CHECK(got.to_vector() == std::vector<double>{1, 1.5, 1.5, 2});
}

TEST_CASE("sliding window: a smaller picture is filled up, and cut out again") {
  const Tensor picture = normal({1, 3, 5, 30}, 0, 1, 2, 0);
  const auto same = [&](const Tensor& w) { return w; };
  const Tensor got = sliding_window_logits(same, picture, {.height = 8, .width = 12});
  CHECK(largest_difference(got, picture) < 1e-6);
}

TEST_CASE("sliding window: options that leave gaps are refused") {
  const auto same = [&](const Tensor& w) { return w; };
  const Tensor picture = zeros({1, 3, 8, 8});
  CHECK_THROWS_AS(sliding_window_logits(same, picture, {.height = 4, .width = 8, .stride = 5}), Error);
  CHECK_THROWS_AS(sliding_window_logits(same, picture, {.height = 0, .width = 8}), Error);
  CHECK_THROWS_AS(sliding_window_logits(same, zeros({2, 3, 8, 8}), {}), Error);
}

TEST_CASE("predictor: every pixel's class at the picture's own size, mirrored or not") {
  const data::Image picture = noise_picture(21, 17);
  Predictor p = brightest();
  const data::Image plain = p.classes_of(picture);
  p.views.flip = true;
  const data::Image mirrored = p.classes_of(picture);
  REQUIRE(plain.width == 21);
  REQUIRE(plain.height == 17);
  REQUIRE(plain.channels == 1);
  int64_t wrong = 0;
  for (int y = 0; y < 17; ++y)
    for (int x = 0; x < 21; ++x) {
      const uint8_t* rgb = picture.at(x, y);
      const int c = *plain.at(x, y);
      wrong += c > 2 || rgb[c] < std::max({rgb[0], rgb[1], rgb[2]}) || *mirrored.at(x, y) != c;
    }
  CHECK(wrong == 0);
}

TEST_CASE("predictor: scales keep the size, and average") {
  data::Image halves(20, 12, 3);
  for (int y = 0; y < 12; ++y)
    for (int x = 0; x < 20; ++x) halves.at(x, y)[x < 10 ? 0 : 2] = 200;
  Predictor p = brightest();
  p.views.short_side = 24;
  p.views.scales = {0.5, 1, 1.5};
  p.views.flip = true;
  const data::Image classes = p.classes_of(halves);
  REQUIRE(classes.width == 20);
  REQUIRE(classes.height == 12);
  for (int y = 0; y < 12; ++y) {
    CHECK(*classes.at(2, y) == 0);
    CHECK(*classes.at(17, y) == 2);
  }
  CHECK(describe(p.views) == "shorter side 24, stride 5, scales 0.5,1,1.5, flip");
}

TEST_CASE("predictor: a picture is fitted between its shorter and its longer side") {
  Predictor p = brightest();
  int64_t windows = 0;
  p.model = [&](const Tensor& w) {
    if (!shapes_only()) windows += w.size(0);
    return w;
  };
  p.views.window = {.height = 8, .width = 8, .stride = 8};
  const auto windows_of = [&](int width, int height) {
    windows = 0;
    p.classes_of(noise_picture(width, height));
    return windows;
  };
  p.views.short_side = 16;
  CHECK(windows_of(100, 20) == 10 * 2);
  p.views.long_side = 40;
  CHECK(describe(p.views) == "shorter side 16, longer one up to 40, stride 8");
  CHECK(windows_of(100, 20) == 5 * 1);  // 40 x 8
  CHECK(windows_of(20, 100) == 5 * 1);
  CHECK(windows_of(30, 20) == 3 * 2);  // 24 x 16
  p.views.short_side = 0;
  CHECK(windows_of(100, 20) == 13 * 3);
}

TEST_CASE("predictor: a model that gives NaN is an error") {
  Predictor p = brightest();
  p.model = [](const Tensor& w) { return w * NAN; };
  CHECK_THROWS_AS(p.classes_of(noise_picture(8, 8)), Error);
}
