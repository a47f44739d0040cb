#include <algorithm>

#include "data/dataset.h"
#include "data/figures.h"
#include "data/segmentation.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

constexpr int64_t kTrainSize = 2000, kTestSize = 200;

// The classes after the background: a figure and its mean colour, to which noise is added.
struct Kind {
  size_t figure;  // in figure_names()
  Rgb colour;
};
constexpr Kind kKinds[] = {{0, {210, 80, 70}},  {3, {80, 180, 90}},  {4, {90, 120, 220}},
                           {5, {220, 200, 70}}, {6, {180, 90, 200}}, {9, {90, 200, 210}}};
constexpr double kColourSpread = 45;

class Scenes : public SegmentationDataset {
 public:
  Scenes(Split split, int64_t size, int64_t first, int width, int height, uint64_t seed)
      : split_(split), size_(size), first_(first), width_(width), height_(height), seed_(seed) {
    classes_.push_back("ground");
    colours_.push_back({60, 60, 60});
    for (const Kind& kind : kKinds) {
      classes_.push_back(figure_names()[kind.figure]);
      colours_.push_back(kind.colour);
    }
  }

  int64_t size() const override { return size_; }
  std::string name(int64_t i) const override {
    return std::string("scene-") + choice_name(split_) + "#" + std::to_string(i);
  }
  std::string label_file(int64_t) const override { return ""; }
  Split split() const override { return split_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  const std::vector<Rgb>& colours() const override { return colours_; }

  SegmentationSample get(int64_t i) const override {
    if (i < 0 || i >= size_) fail("scenes", "no sample " + std::to_string(i));
    Random random(seed_, uint64_t(first_ + i));
    Canvas canvas = textured_ground(width_, height_, random);
    Image labels(width_, height_, 1);
    const double unit = std::min(width_, height_);
    for (int64_t figures = 3 + random.below(5); figures > 0; --figures) {
      const auto k = size_t(random.below(std::size(kKinds)));
      Colour colour;
      for (size_t c = 0; c < 3; ++c)
        colour[c] = float(kKinds[k].colour[c] + random.uniform(-kColourSpread, kColourSpread));
      const Point centre{float(random.uniform(0, width_)), float(random.uniform(0, height_))};
      const double radius = unit * random.uniform(0.1, 0.3), turn = random.uniform(-0.4, 0.4);
      draw_figure(canvas, kKinds[k].figure, centre, float(radius), float(turn), colour, &labels,
                  uint8_t(k + 1));
    }
    return {with_grain(canvas, random), std::move(labels), i};
  }

 private:
  Split split_;
  int64_t size_, first_;
  int width_, height_;
  uint64_t seed_;
  std::vector<std::string> classes_;
  std::vector<Rgb> colours_;
};

}  // namespace

std::unique_ptr<SegmentationDataset> open_scenes(Split split, int64_t size, int width, int height,
                                                 uint64_t seed) {
  const int64_t at = split == Split::train ? 0 : split == Split::val ? 1 : 2;
  const int64_t all = at == 0 ? kTrainSize : kTestSize;
  if (size < 0 || std::min(width, height) < 16 || std::max(width, height) > 1024)
    fail("scenes", "got " + std::to_string(size) + " scenes of " + std::to_string(width) + " x " +
                       std::to_string(height) + ", need 0 (all) or more of 16 to 1024 pixels a side");
  return std::make_unique<Scenes>(split, size == 0 ? all : std::min(size, all), at << 32, width, height,
                                  seed);
}

namespace {

const SegmentationFormats::Entry registered{
    {.name = "scenes", .open = [](const std::string&, Split split, const SegmentationOptions& options) {
       const int64_t all = open_scenes(split)->size();
       return open_scenes(split, int64_t(samples_in_use(all, options.first, options.limit).size()));
     }}};

}  // namespace

}  // namespace pursuit::data
