#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "data/dataset.h"
#include "data/interactive/object_files.h"
#include "engine/base/error.h"
#include "engine/base/random.h"

namespace pursuit::data {
namespace {

constexpr int64_t kTrainSize = 2000, kTestSize = 200;
constexpr int kSide = 32;
constexpr double kNoise = 0.08, kTwoPi = 6.283185307179586;
constexpr double kLeastShare = 0.05, kMostShare = 0.6;  // of the picture that the object covers

// A colour and a wave on it that is stronger in some channels than in others. Levels are 0 to 1.
struct Material {
  std::array<double, 3> colour, amplitude;
  double wave_x, wave_y, phase;  // radians per pixel, radians

  double level(size_t channel, int x, int y) const {
    return colour[channel] + amplitude[channel] * std::sin(wave_x * x + wave_y * y + phase);
  }
};

Material random_material(Random& random) {
  Material m;
  for (double& c : m.colour) c = random.uniform(0.25, 0.75);
  for (double& a : m.amplitude) a = random.uniform(-0.18, 0.18);
  const double frequency = kTwoPi / random.uniform(3, 10), angle = random.uniform(0, kTwoPi / 2);
  m.wave_x = frequency * std::cos(angle), m.wave_y = frequency * std::sin(angle);
  m.phase = random.uniform(0, kTwoPi);
  return m;
}

// Whether a region of one can be told from a region of the other. Single pixels need not: the colours may
// differ by only one and a half of kNoise.
bool differ(const Material& a, const Material& b) {
  const double colour =
      std::hypot(a.colour[0] - b.colour[0], a.colour[1] - b.colour[1], a.colour[2] - b.colour[2]);
  const double wave = std::min(std::hypot(a.wave_x - b.wave_x, a.wave_y - b.wave_y),
                               std::hypot(a.wave_x + b.wave_x, a.wave_y + b.wave_y));
  return colour > 0.12 && wave > 0.3;
}

std::vector<Material> random_materials(size_t count, Random& random) {
  std::vector<Material> materials;
  while (materials.size() < count) {
    const Material next = random_material(random);
    if (std::all_of(materials.begin(), materials.end(), [&](const Material& m) { return differ(m, next); }))
      materials.push_back(next);
  }
  return materials;
}

struct Wave {
  double amplitude, frequency, phase;
  explicit Wave(Random& random)
      : amplitude(random.uniform(1, 2.5)),
        frequency(kTwoPi / random.uniform(8, 16)),
        phase(random.uniform(0, kTwoPi)) {}
  double at(int v) const { return amplitude * std::sin(frequency * v + phase); }
};

// The material of every pixel, [kSide * kSide]: that of the nearest of four to eight points after waves have
// moved the pixel.
std::vector<size_t> random_layout(size_t materials, Random& random) {
  struct Region {
    double x, y;
    size_t material;
  };
  std::vector<Region> regions(std::max(materials, size_t(4 + random.below(5))));
  for (size_t i = 0; i < regions.size(); ++i)
    regions[i] = {random.uniform(0, kSide), random.uniform(0, kSide),
                  i < materials ? i : size_t(random.below(int64_t(materials)))};
  const Wave along_x(random), along_y(random);
  std::vector<size_t> layout;
  for (int y = 0; y < kSide; ++y)
    for (int x = 0; x < kSide; ++x) {
      const double u = x + along_x.at(y), v = y + along_y.at(x);
      const auto distance = [&](const Region& r) { return (r.x - u) * (r.x - u) + (r.y - v) * (r.y - v); };
      layout.push_back(
          std::min_element(regions.begin(), regions.end(), [&](const Region& a, const Region& b) {
            return distance(a) < distance(b);
          })->material);
    }
  return layout;
}

// One of the materials that cover kLeastShare to kMostShare of the picture; none if there is none.
std::optional<size_t> random_target(const std::vector<size_t>& layout, size_t materials, Random& random) {
  std::vector<size_t> fitting;
  for (size_t m = 0; m < materials; ++m) {
    const double share = double(std::count(layout.begin(), layout.end(), m)) / double(layout.size());
    if (share >= kLeastShare && share <= kMostShare) fitting.push_back(m);
  }
  if (fitting.empty()) return {};
  return fitting[size_t(random.below(int64_t(fitting.size())))];
}

SegmentationSample random_scene(Random& random, double noise, Random& of_noise) {
  std::vector<Material> materials;
  std::vector<size_t> layout;
  std::optional<size_t> target;
  while (!target) {
    materials = random_materials(size_t(3 + random.below(3)), random);
    layout = random_layout(materials.size(), random);
    target = random_target(layout, materials.size(), random);
  }
  const double slope = random.uniform(0, 0.4) / kSide, angle = random.uniform(0, kTwoPi);
  SegmentationSample scene{Image(kSide, kSide, 3), Image(kSide, kSide, 1)};
  for (int y = 0; y < kSide; ++y)
    for (int x = 0; x < kSide; ++x) {
      const size_t m = layout[size_t(y * kSide + x)];
      const double light =
          1 + slope * (std::cos(angle) * (x - 0.5 * kSide) + std::sin(angle) * (y - 0.5 * kSide));
      for (size_t c = 0; c < 3; ++c) {
        double level = light * materials[m].level(c, x, y) + kNoise * random.normal();
        if (noise > 0) level += noise * of_noise.normal();
        scene.image.at(x, y)[c] = uint8_t(std::lround(255 * std::clamp(level, 0.0, 1.0)));
      }
      *scene.labels.at(x, y) = m == *target;
    }
  return scene;
}

class MaterialScenes : public SegmentationDataset {
 public:
  MaterialScenes(Split split, int64_t size, int64_t first, double noise, uint64_t seed)
      : split_(split), size_(size), first_(first), noise_(noise), seed_(seed) {}

  int64_t size() const override { return size_; }
  std::string name(int64_t i) const override {
    return std::string("material-") + choice_name(split_) + "#" + std::to_string(i);
  }
  std::string label_file(int64_t) const override { return ""; }
  Split split() const override { return split_; }
  const std::vector<std::string>& classes() const override { return object_key().classes(); }
  const std::vector<Rgb>& colours() const override { return object_key().colours(); }

  SegmentationSample get(int64_t i) const override {
    if (i < 0 || i >= size_) fail("materials", "no sample " + std::to_string(i));
    Random random(seed_, uint64_t(first_ + i)), of_noise(seed_, uint64_t(first_ + i) + (uint64_t(3) << 32));
    SegmentationSample scene = random_scene(random, noise_, of_noise);
    scene.index = i;
    return scene;
  }

 private:
  Split split_;
  int64_t size_, first_;
  double noise_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<SegmentationDataset> open_material_scenes(Split split, int64_t size, double noise,
                                                          uint64_t seed) {
  const int64_t at = split == Split::train ? 0 : split == Split::val ? 1 : 2;
  const int64_t all = at == 0 ? kTrainSize : kTestSize;
  if (size < 0) fail("materials", "got " + std::to_string(size) + " scenes, need 0 (all) or more");
  if (!(noise >= 0 && noise <= 1))
    fail("materials", "noise: got " + std::to_string(noise) + ", need 0 to 1 (the range of a pixel)");
  return std::make_unique<MaterialScenes>(split, size == 0 ? all : std::min(size, all), at << 32, noise,
                                          seed);
}

namespace {

const ObjectFormats::Entry registered{
    {.name = "materials", .open = [](const std::string&, Split split, const ObjectOptions& options) {
       const int64_t all = open_material_scenes(split)->size();
       return open_material_scenes(split, int64_t(samples_in_use(all, options.first, options.limit).size()),
                                   options.noise);
     }}};

}  // namespace

}  // namespace pursuit::data
