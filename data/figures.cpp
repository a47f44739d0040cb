#include "data/figures.h"

#include <algorithm>
#include <cmath>

namespace pursuit::data {
namespace {

constexpr float kPi = 3.14159265f;

struct Edge {
  Point from, along;
  float inverse_square;  // 1 / |along|^2
  float run;             // along.x / along.y
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

// A figure centred at the origin with a radius of about 1, y pointing down: a polygon, or made of circles (no
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

// Signed distance to the polygon's outline, negative inside.
float distance(const std::vector<Edge>& edges, Point p) {
  float nearest = 1e9f;
  bool inside = false;
  for (const Edge& edge : edges) {
    const float wx = p.x - edge.from.x, wy = p.y - edge.from.y;
    const float t = std::clamp((wx * edge.along.x + wy * edge.along.y) * edge.inverse_square, 0.0f, 1.0f);
    const float dx = wx - t * edge.along.x, dy = wy - t * edge.along.y;
    nearest = std::min(nearest, dx * dx + dy * dy);
    // Toggles if the edge crosses the ray from p to the right.
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

}  // namespace

const std::vector<std::string>& figure_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Figure& figure : figures()) all.push_back(figure.name);
    return all;
  }();
  return names;
}

Colour random_colour(Random& random, double low, double high) {
  Colour colour;
  for (float& c : colour) c = float(random.uniform(low, high));
  return colour;
}

void draw_figure(Canvas& canvas, size_t figure, Point centre, float radius, float turn, const Colour& colour,
                 Image* labels, uint8_t label) {
  const float cosine = std::cos(turn) / radius, sine = std::sin(turn) / radius, reach = 1.1f * radius + 1;
  const auto bound = [&](float v, int size) { return std::clamp(int(std::lround(v)), 0, size); };
  const int left = bound(centre.x - reach, canvas.width), right = bound(centre.x + reach, canvas.width);
  for (int y = bound(centre.y - reach, canvas.height); y < bound(centre.y + reach, canvas.height); ++y) {
    for (int x = left; x < right; ++x) {
      const float dx = float(x) + 0.5f - centre.x, dy = float(y) + 0.5f - centre.y;
      if (dx * dx + dy * dy > reach * reach) continue;
      const float d = distance(figure, {cosine * dx + sine * dy, cosine * dy - sine * dx}) * radius;
      const float cover = std::clamp(0.5f - d, 0.0f, 1.0f);
      if (cover == 0) continue;
      if (labels && d < 0) *labels->at(x, y) = label;
      float* pixel = &canvas.pixels[size_t(y * canvas.width + x) * 3];
      for (int c = 0; c < 3; ++c) pixel[c] += cover * (colour[size_t(c)] - pixel[c]);
    }
  }
}

Canvas textured_ground(int width, int height, Random& random) {
  const Colour from = random_colour(random, 10, 120), to = random_colour(random, 10, 120);
  const float angle = float(random.uniform(0, 2 * kPi)), gx = std::cos(angle), gy = std::sin(angle);
  const float wave_x = float(random.uniform(-0.9, 0.9)) * 32 / float(width);
  const float wave_y = float(random.uniform(-0.9, 0.9)) * 32 / float(height);
  const float amplitude = float(random.uniform(0, 15));
  Canvas canvas{width, height, std::vector<float>(size_t(width) * size_t(height) * 3)};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const float u = float(x) / float(width) - 0.5f, v = float(y) / float(height) - 0.5f;
      const float t = 0.5f + 0.6f * (gx * u + gy * v);
      const float wave = amplitude * std::sin(wave_x * float(x) + wave_y * float(y));
      for (size_t c = 0; c < 3; ++c) {
        canvas.pixels[size_t(y * width + x) * 3 + c] = from[c] + t * (to[c] - from[c]) + wave;
      }
    }
  }
  return canvas;
}

Image with_grain(const Canvas& canvas, Random& random) {
  Image image(canvas.width, canvas.height, 3);
  const float noise = float(random.uniform(2, 16)) / 64;
  for (size_t p = 0; p < canvas.pixels.size(); p += 3) {
    const uint32_t word = random.next();
    for (size_t c = 0; c < 3; ++c) {
      // One random byte shared by all channels plus one per channel gives coloured grain.
      const float grain = float((word >> (8 * c)) & 255) + float(word >> 24) - 255;
      image.pixels[p + c] = uint8_t(std::clamp(canvas.pixels[p + c] + noise * grain, 0.0f, 255.0f));
    }
  }
  return image;
}

}  // namespace pursuit::data
