#include <algorithm>
#include <cmath>

#include "data/dataset.h"
#include "data/figures.h"
#include "engine/base/error.h"
#include "engine/base/random.h"

namespace pursuit::data {
namespace {

constexpr int64_t kTrainSize = 20000, kTestSize = 2000;
constexpr size_t kCircle = 0;

// A light colour that is at least 50 grey levels brighter than the background.
Colour figure_colour(Random& random, const Colour& ground) {
  const auto grey = [](const Colour& c) { return 0.3f * c[0] + 0.6f * c[1] + 0.1f * c[2]; };
  for (;;) {
    const Colour colour = random_colour(random, 90, 250);
    if (grey(colour) >= grey(ground) + 50) return colour;
  }
}

// The ranges below are chosen so that a small transformer learns most, but not all, of the set in two epochs.
class Synthetic : public Dataset {
 public:
  Synthetic(Split split, int size, uint64_t seed) : train_(split == Split::train), size_(size), seed_(seed) {}

  int64_t size() const override { return train_ ? kTrainSize : kTestSize; }
  // Every ten consecutive pictures contain each class once, in a changing order, so that evenly spaced
  // subsets are balanced.
  int64_t label(int64_t i) const override {
    const int64_t n = int64_t(figure_names().size());
    const uint32_t turn = philox_word(0, 0, uint64_t(i / n));
    constexpr int64_t odd_steps[] = {1, 3, 7, 9};  // coprime to ten, which gives a permutation
    return (i % n * odd_steps[turn >> 8 & 3] + int64_t(turn >> 16)) % n;
  }
  const std::vector<std::string>& classes() const override { return figure_names(); }
  std::string name(int64_t i) const override {
    return std::string(train_ ? "synthetic-train#" : "synthetic-test#") + std::to_string(i);
  }

  Sample get(int64_t i) const override {
    if (i < 0 || i >= size()) fail("synthetic", "no sample " + std::to_string(i));
    const uint64_t stream = uint64_t(train_ ? i : kTrainSize + i);
    Random random(seed_, stream);
    const float unit = float(size_) / 32;
    Canvas canvas = textured_ground(size_, size_, random);
    Colour ground{};
    for (size_t p = 0; p < canvas.pixels.size(); p += 3) {
      for (size_t c = 0; c < 3; ++c) ground[c] += canvas.pixels[p + c];
    }
    for (float& c : ground) c /= float(size_ * size_);

    // Two small discs as distractors, then the figure, which may cover them.
    for (int k = 0; k < 2; ++k) {
      const Point at{float(random.uniform(0, size_)), float(random.uniform(0, size_))};
      const Colour colour = random_colour(random, 10, 180);
      draw_figure(canvas, kCircle, at, unit * float(random.uniform(1, 3)), 0, colour);
    }
    const auto shifted = [&] { return float(size_) / 2 + unit * float(random.uniform(-4.5, 4.5)); };
    const Point centre{shifted(), shifted()};
    const float radius = unit * float(random.uniform(7.5, 12)), turn = float(random.uniform(-0.4, 0.4));
    draw_figure(canvas, size_t(label(i)), centre, radius, turn, figure_colour(random, ground));

    return {with_grain(canvas, random), label(i), i};
  }

 private:
  bool train_;
  int size_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<Dataset> open_synthetic(Split split, int size, uint64_t seed) {
  if (size < 8 || size > 1024) {
    fail("synthetic", "picture size: got " + std::to_string(size) + ", need 8 to 1024 pixels");
  }
  return std::make_unique<Synthetic>(split, size, seed);
}

namespace {

const DatasetFormats::Entry registered{
    {.name = "synthetic", .open = [](const std::string&, Split split, const DatasetOptions& options) {
       return open_synthetic(split, options.synthetic_size, options.synthetic_seed);
     }}};

}  // namespace

}  // namespace pursuit::data
