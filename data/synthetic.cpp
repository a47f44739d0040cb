#include <algorithm>
#include <array>
#include <cmath>

#include "data/dataset.h"
#include "engine/error.h"
#include "engine/random.h"

namespace pursuit::data {
namespace {

constexpr float kPi = 3.14159265f;
constexpr int64_t kTrainSize = 20000, kTestSize = 2000;

struct Point {
  float x, y;
};

struct Edge {
  Point from, along;
  float inverse_square;  // 1 / |along|^2
  float run;             // along.x / along.y, how far x moves with y
};

std::vector<Edge> polygon(const std::vector<Point>& corners) {
  std::vector<Edge> edges;
  for (size_t i = 0; i < corners.size(); ++i) {
    const Point a = corners[i], b = corners[(i + 1) % corners.size()], along{b.x - a.x, b.y - a.y};
    const float square = along.x * along.x + along.y * along.y;
    edges.push_back({a, along, 1 / square, along.y != 0 ? along.x / along.y : 0});
  }
  return edges;
}

// A figure about the origin that reaches to about distance 1, y pointing down: a polygon, or circles (no
// edges).
struct Figure {
  const char* name;
  std::vector<Edge> edges;
};

std::vector<Edge> star(int points, float inner) {
  std::vector<Point> corners;
  for (int i = 0; i < 2 * points; ++i) {
    const float radius = i % 2 ? inner : 1.0f, angle = kPi * float(i) / float(points) - kPi / 2;
    corners.push_back({radius * std::cos(angle), radius * std::sin(angle)});
  }
  return polygon(corners);
}

std::vector<Edge> heart() {
  std::vector<Point> corners;
  for (int i = 0; i < 18; ++i) {
    const float t = 2 * kPi * float(i) / 18, sine = std::sin(t);
    corners.push_back(
        {sine * sine * sine, -(13 * std::cos(t) - 5 * std::cos(2 * t) - 2 * std::cos(3 * t)) / 15});
  }
  return polygon(corners);
}

constexpr size_t kCircle = 0, kRing = 1, kCrescent = 2;

const std::vector<Figure>& figures() {
  static const std::vector<Figure> all = {
      {"circle", {}},
      {"ring", {}},
      {"crescent", {}},
      {"square", polygon({{-0.75f, -0.75f}, {0.75f, -0.75f}, {0.75f, 0.75f}, {-0.75f, 0.75f}})},
      {"triangle", polygon({{0, -1}, {0.87f, 0.6f}, {-0.87f, 0.6f}})},
      {"star", star(5, 0.42f)},
      {"cross", polygon({{-0.3f, -1},
                         {0.3f, -1},
                         {0.3f, -0.3f},
                         {1, -0.3f},
                         {1, 0.3f},
                         {0.3f, 0.3f},
                         {0.3f, 1},
                         {-0.3f, 1},
                         {-0.3f, 0.3f},
                         {-1, 0.3f},
                         {-1, -0.3f},
                         {-0.3f, -0.3f}})},
      {"diamond", polygon({{0, -1.1f}, {0.6f, 0}, {0, 1.1f}, {-0.6f, 0}})},
      {"arrow",
       polygon(
           {{0, -1}, {0.8f, -0.1f}, {0.3f, -0.1f}, {0.3f, 1}, {-0.3f, 1}, {-0.3f, -0.1f}, {-0.8f, -0.1f}})},
      {"heart", heart()},
  };
  return all;
}

// Distance to the polygon's outline, negative inside.
float distance(const std::vector<Edge>& edges, Point p) {
  float nearest = 1e9f;
  bool inside = false;
  for (const Edge& edge : edges) {
    const float wx = p.x - edge.from.x, wy = p.y - edge.from.y;
    const float t = std::clamp((wx * edge.along.x + wy * edge.along.y) * edge.inverse_square, 0.0f, 1.0f);
    const float dx = wx - t * edge.along.x, dy = wy - t * edge.along.y;
    nearest = std::min(nearest, dx * dx + dy * dy);
    // Whether the edge crosses the ray from p to the right.
    inside ^= ((wy < 0) != (wy < edge.along.y)) & (wx < edge.run * wy);
  }
  return inside ? -std::sqrt(nearest) : std::sqrt(nearest);
}

float length(float x, float y) { return std::sqrt(x * x + y * y); }

float distance(size_t figure, Point p) {
  const float radius = length(p.x, p.y);
  if (figure == kCircle) return radius - 0.85f;
  if (figure == kRing) return std::fabs(radius - 0.75f) - 0.2f;
  if (figure == kCrescent) return std::max(radius - 0.95f, 0.75f - length(p.x - 0.45f, p.y));
  return distance(figures()[figure].edges, p);
}

using Colour = std::array<float, 3>;

Colour random_colour(Random& random, double low, double high) {
  Colour colour;
  for (float& c : colour) c = float(random.uniform(low, high));
  return colour;
}

// A light colour that stands out from the ground by at least 50 in grey.
Colour figure_colour(Random& random, const Colour& ground) {
  const auto grey = [](const Colour& c) { return 0.3f * c[0] + 0.6f * c[1] + 0.1f * c[2]; };
  for (;;) {
    const Colour colour = random_colour(random, 90, 250);
    if (grey(colour) >= grey(ground) + 50) return colour;
  }
}

// Blends a figure of this radius (pixels) over the picture, its edge smoothed over one pixel.
void draw(std::vector<float>& canvas, int size, size_t figure, Point centre, float radius, float turn,
          const Colour& colour) {
  const float cosine = std::cos(turn) / radius, sine = std::sin(turn) / radius, reach = 1.1f * radius + 1;
  const auto bound = [&](float v) { return std::clamp(int(std::lround(v)), 0, size); };
  for (int y = bound(centre.y - reach); y < bound(centre.y + reach); ++y) {
    for (int x = bound(centre.x - reach); x < bound(centre.x + reach); ++x) {
      const float dx = float(x) + 0.5f - centre.x, dy = float(y) + 0.5f - centre.y;
      if (dx * dx + dy * dy > reach * reach) continue;
      const float d = distance(figure, {cosine * dx + sine * dy, cosine * dy - sine * dx}) * radius;
      const float cover = std::clamp(0.5f - d, 0.0f, 1.0f);
      if (cover == 0) continue;
      float* pixel = &canvas[size_t(y * size + x) * 3];
      for (int c = 0; c < 3; ++c) pixel[c] += cover * (colour[size_t(c)] - pixel[c]);
    }
  }
}

// The ranges below are chosen so that a small transformer learns most of the set in two passes over it, not
// all.
class Synthetic : public Dataset {
 public:
  Synthetic(Split split, int size, uint64_t seed) : train_(split == Split::train), size_(size), seed_(seed) {
    for (const Figure& figure : figures()) classes_.push_back(figure.name);
  }

  int64_t size() const override { return train_ ? kTrainSize : kTestSize; }
  // Each run of ten pictures holds every class once, in an order that changes from run to run: any evenly
  // spaced selection then sees all classes alike.
  int64_t label(int64_t i) const override {
    const int64_t n = int64_t(classes_.size());
    const uint32_t turn = philox_word(0, 0, uint64_t(i / n));
    constexpr int64_t odd_steps[] = {1, 3, 7, 9};  // prime to ten, so that the run stays a permutation
    return (i % n * odd_steps[turn >> 8 & 3] + int64_t(turn >> 16)) % n;
  }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::string name(int64_t i) const override {
    return std::string(train_ ? "synthetic-train#" : "synthetic-test#") + std::to_string(i);
  }

  Sample get(int64_t i) const override {
    if (i < 0 || i >= size()) fail("synthetic", "no sample " + std::to_string(i));
    const uint64_t stream = uint64_t(train_ ? i : kTrainSize + i);
    Random random(seed_, stream);
    const float unit = float(size_) / 32;
    std::vector<float> canvas = background(random);
    Colour ground{};
    for (size_t p = 0; p < canvas.size(); p += 3) {
      for (size_t c = 0; c < 3; ++c) ground[c] += canvas[p + c];
    }
    for (float& c : ground) c /= float(size_ * size_);

    // Two small discs that mean nothing, then the figure, which may cover them.
    for (int k = 0; k < 2; ++k) {
      const Point at{float(random.uniform(0, size_)), float(random.uniform(0, size_))};
      draw(canvas, size_, kCircle, at, unit * float(random.uniform(1, 3)), 0, random_colour(random, 10, 180));
    }
    const auto shifted = [&] { return float(size_) / 2 + unit * float(random.uniform(-4.5, 4.5)); };
    const Point centre{shifted(), shifted()};
    const float radius = unit * float(random.uniform(7.5, 12)), turn = float(random.uniform(-0.4, 0.4));
    draw(canvas, size_, size_t(label(i)), centre, radius, turn, figure_colour(random, ground));

    Sample sample{Image(size_, size_, 3), label(i), i};
    const float noise = float(random.uniform(2, 16)) / 64;
    for (size_t p = 0; p < canvas.size(); p += 3) {
      const uint32_t word = random.next();
      for (size_t c = 0; c < 3; ++c) {
        // One byte for all channels and one for each: coloured grain.
        const float grain = float((word >> (8 * c)) & 255) + float(word >> 24) - 255;
        sample.image.pixels[p + c] = uint8_t(std::clamp(canvas[p + c] + noise * grain, 0.0f, 255.0f));
      }
    }
    return sample;
  }

 private:
  // A gradient between two colours with a sine pattern over it.
  std::vector<float> background(Random& random) const {
    const Colour from = random_colour(random, 10, 120), to = random_colour(random, 10, 120);
    const float angle = float(random.uniform(0, 2 * kPi)), gx = std::cos(angle), gy = std::sin(angle);
    const float wave_x = float(random.uniform(-0.9, 0.9)) * 32 / float(size_);
    const float wave_y = float(random.uniform(-0.9, 0.9)) * 32 / float(size_),
                height = float(random.uniform(0, 15));
    std::vector<float> canvas(size_t(size_) * size_t(size_) * 3);
    for (int y = 0; y < size_; ++y) {
      for (int x = 0; x < size_; ++x) {
        const float u = float(x) / float(size_) - 0.5f, v = float(y) / float(size_) - 0.5f;
        const float t = 0.5f + 0.6f * (gx * u + gy * v);
        const float wave = height * std::sin(wave_x * float(x) + wave_y * float(y));
        for (size_t c = 0; c < 3; ++c) {
          canvas[size_t(y * size_ + x) * 3 + c] = from[c] + t * (to[c] - from[c]) + wave;
        }
      }
    }
    return canvas;
  }

  bool train_;
  int size_;
  uint64_t seed_;
  std::vector<std::string> classes_;
};

}  // namespace

std::unique_ptr<Dataset> open_synthetic(Split split, int size, uint64_t seed) {
  if (size < 8 || size > 1024) {
    fail("synthetic", "picture size: got " + std::to_string(size) + ", need 8 to 1024 pixels");
  }
  return std::make_unique<Synthetic>(split, size, seed);
}

}  // namespace pursuit::data
