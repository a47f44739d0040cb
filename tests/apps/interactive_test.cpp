#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "apps/segment/interactive/clicked_picture.h"
#include "apps/segment/interactive/results.h"
#include "engine/base/random.h"
#include "nn/init.h"
#include "tests/message_of.h"

using namespace pursuit;
using namespace pursuit::segment::interactive;

namespace {

Config tiny() {
  Config c;
  c.dim = 8;
  c.depth = 1;
  c.key_dim = 4;
  c.device = "cpu";
  return c;
}

data::Image noise(int width, int height, uint64_t seed) {
  Random random(seed, 0);
  data::Image picture(width, height, 3);
  for (uint8_t& pixel : picture.pixels) pixel = uint8_t(random.below(256));
  return picture;
}

}  // namespace

TEST_CASE("interactive: clicks as numbers of the grid of tokens") {
  // Tokens of 8 pixels, 4 rows of 5. The last click on a token is the one that counts there.
  const ClickNumbers n = click_numbers(
      {{{0, 0, true}, {39, 31, false}}, {{15, 8, false}, {8, 15, true}, {16, 8, true}}}, 4, 8, 4, 5);
  CHECK(n.tokens == std::vector<int64_t>{0, 19, 0, 0, 6, 6, 7, 0});
  CHECK(n.values == std::vector<float>{1, -1, 0, 0, -1, 1, 1, 0});
  std::vector<float> clicked(40);
  clicked[0] = 1, clicked[19] = -1, clicked[26] = 1, clicked[27] = 1;
  CHECK(n.clicked == clicked);
}

TEST_CASE("interactive: a mask is what has a probability above 0.49") {
  const float edge = std::log(0.49f / 0.51f);
  const Tensor logits =
      from_vector(std::vector<float>{9, 9, 9, 9, -3, edge, std::nextafter(edge, 1.0f), 3}, {2, 1, 2, 2});
  CHECK(mask_of(logits, 1, 2, 2).pixels == std::vector<uint8_t>{0, 0, 1, 1});
  const Tensor broken = from_vector(std::vector<float>{0, NAN, 0, 0}, {1, 1, 2, 2});
  CHECK(message_of([&] { mask_of(broken, 0, 2, 2); }).find("NaN") != std::string::npos);
}

TEST_CASE("interactive: a clicked pixel is in the mask, at any size of the picture") {
  const Config c = tiny();
  nn::InteractiveSegmenter model(model_config(c));
  nn::initialise(model, nn::Init::pytorch, 1);
  for (const auto& [w, h] : {std::pair{32, 32}, {100, 40}, {17, 61}, {1, 1}, {3, 200}}) {
    const int width = w, height = h;
    CAPTURE(width);
    CAPTURE(height);
    const ClickedPicture picture(model, c, noise(width, height, 3));
    CHECK(picture.mask({}).width == width);
    CHECK(picture.mask({}).height == height);
    for (const auto& [x, y] : {std::pair{0, 0}, {width - 1, height - 1}, {width / 2, height / 3}})
      for (const bool positive : {true, false}) {
        const data::Image mask = picture.mask({{x, y, positive}});
        // A token has a width of two pixels of the input. Where the picture has no more pixels than that, its
        // centre is the click's value; elsewhere the nearest pixels are.
        CHECK(int(*mask.at(x, y)) == int(positive));
      }
  }
}

TEST_CASE("interactive: the robot user's curve, of a picture whose mask follows clicks") {
  const Config c = tiny();
  nn::InteractiveSegmenter model(model_config(c));
  nn::initialise(model, nn::Init::pytorch, 2);
  const data::Image image = noise(32, 32, 4);
  data::Image object(32, 32, 1);
  for (int y = 6; y < 20; ++y)
    for (int x = 10; x < 30; ++x) *object.at(x, y) = 1;
  const ClickedPicture picture(model, c, image);
  // The same by hand.
  std::vector<data::Click> clicks;
  data::Image mask(32, 32, 1);
  data::ClickCurve expected;
  for (int k = 0; k < 6; ++k) {
    if (const auto click = data::next_click(object, mask, clicks)) {
      clicks.push_back(*click);
      mask = picture.mask(clicks);
    }
    expected.push_back(data::intersection_over_union(object, mask));
  }
  CHECK(click_curve(picture, object, 6) == expected);
  Random one(1, 0), again(1, 0), other(2, 0);
  const data::ClickCurve random = click_curve(picture, object, 6, &one);
  CHECK(random == click_curve(picture, object, 6, &again));
  CHECK(random != click_curve(picture, object, 6, &other));
}

TEST_CASE("interactive: results come back from JSON, and other robots and answers are other results") {
  Results r;
  r.data = "materials test";
  r.robot = "deepest pixel";
  r.answers = "clicks propagated, clamped, uniform prior";
  std::vector<data::ClickCurve> curves(2, data::ClickCurve(20, 0.82));
  std::fill(curves[1].begin() + 3, curves[1].end(), 0.95);
  r.set_curves(curves);
  CHECK(r.count == 2);
  CHECK(std::abs(r.mean_iou[0] - 0.82) < 1e-12);
  CHECK(std::abs(r.mean_iou[19] - (0.82 + 0.95) / 2) < 1e-12);
  REQUIRE(r.at(0.85));
  CHECK(r.at(0.8)->clicks == 1);
  CHECK(r.at(0.85)->clicks == 12);
  CHECK(r.at(0.9)->never == 1);
  CHECK(!r.at(0.5));
  std::vector<Results> all;
  from_json(to_json(r), all);
  REQUIRE(all.size() == 1);
  CHECK(to_json(all[0]) == to_json(r));
  CHECK(alike(all[0], r));
  all[0].robot = "random, seed 1";
  CHECK(!alike(all[0], r));
  all[0].robot = r.robot;
  all[0].answers += ", 1 iterations of keys (theta 1)";
  CHECK(!alike(all[0], r));
  nlohmann::ordered_json few = to_json(r);
  few["mean_iou"] = {0.5};
  CHECK(message_of([&] { from_json(few, all); }).find("need 20") != std::string::npos);
}

TEST_CASE("interactive: options that change nothing are named") {
  const auto names = [](const Config& c) {
    std::set<std::string> all;
    for (const auto& option : without_effect(c)) all.insert(option.first);
    return all;
  };
  Config c = tiny();
  CHECK(names(c) == std::set<std::string>{"eval-batch-size", "least-area", "most-objects", "jpeg-decoder",
                                          "cache-mib", "skip-bad"});
  c.data = "folder";
  CHECK(names(c) == std::set<std::string>{"eval-batch-size"});
}

TEST_CASE("interactive: answers are told from a run's own part by part") {
  Config own = tiny(), other = own;
  CHECK(changed_answers(describe_attention(other), describe_attention(own)) == "the run's");
  // "clamped" is a part of "not clamped", and yet another answer.
  own.clamp = false;
  CHECK(changed_answers(describe_attention(other), describe_attention(own)) == "clamped");
  CHECK(changed_answers(describe_attention(own), describe_attention(other)) == "not clamped");
  other.propagate = false;
  other.key_iterations = 2;
  CHECK(changed_answers(describe_attention(other), describe_attention(own)) ==
        "clicks not propagated, clamped, keys adapted 2 x (theta 1)");
}
