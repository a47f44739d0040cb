#pragma once
#include <array>
#include <string>
#include <vector>

#include "data/image.h"
#include "engine/base/random.h"

// Drawing functions of the built-in data sets.
namespace pursuit::data {

struct Point {
  float x, y;
};

using Colour = std::array<float, 3>;  // red, green, blue, 0 to 255

// An image being drawn: [height, width, 3].
struct Canvas {
  int width, height;
  std::vector<float> pixels;
};

// Ten shapes: circle, ring, crescent, square, triangle, star, cross, diamond, arrow, heart.
const std::vector<std::string>& figure_names();

// A gradient between two dark colours overlaid with a sine pattern.
Canvas textured_ground(int width, int height, Random& random);

Colour random_colour(Random& random, double low, double high);

// Blends a figure of this radius (pixels), rotated by `turn` radians, over the canvas; its edge is smoothed
// over one pixel. Where it covers a pixel's centre, `labels` (nullable, of the canvas's size, one channel) is
// set to `label`.
void draw_figure(Canvas& canvas, size_t figure, Point centre, float radius, float turn, const Colour& colour,
                 Image* labels = nullptr, uint8_t label = 0);

// The canvas in 8 bits, with coloured grain of random strength.
Image with_grain(const Canvas& canvas, Random& random);

}  // namespace pursuit::data
