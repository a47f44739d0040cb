#pragma once
#include <array>
#include <string>
#include <vector>

#include "data/image.h"
#include "engine/base/random.h"

// What the built-in sets are drawn from.
namespace pursuit::data {

struct Point {
  float x, y;
};

using Colour = std::array<float, 3>;  // red, green, blue, 0 to 255

// A picture in the making: [height, width, 3].
struct Canvas {
  int width, height;
  std::vector<float> pixels;
};

// Ten shapes: circle, ring, crescent, square, triangle, star, cross, diamond, arrow, heart.
const std::vector<std::string>& figure_names();

// A gradient between two dark colours with a sine pattern over it.
Canvas textured_ground(int width, int height, Random& random);

Colour random_colour(Random& random, double low, double high);

// Blends a figure of this radius (pixels) over the picture, turned by `turn` radians, its edge smoothed over
// one pixel. Where the figure covers a pixel's centre, `labels` (may be null, of the canvas's size, one
// channel) becomes `label`.
void draw_figure(Canvas& canvas, size_t figure, Point centre, float radius, float turn, const Colour& colour,
                 Image* labels = nullptr, uint8_t label = 0);

// The canvas in 8 bits with a coloured grain of random strength.
Image with_grain(const Canvas& canvas, Random& random);

}  // namespace pursuit::data
