#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "data/image.h"

namespace pursuit::apps {

// Draws text into pictures: capital letters of 5 x 7 pixels in cells of 6 x 9, enlarged by `scale`. Unknown
// characters (other alphabets) are drawn as a frame.
struct Lettering {
  int scale = 1;
  int width(std::string_view utf8) const;  // pixels
  int height() const { return 9 * scale; }
  // Draws into an RGB picture with the upper left corner of the first cell at (x, y); clips at the borders.
  void draw(data::Image& picture, int x, int y, std::string_view utf8, std::array<uint8_t, 3> rgb) const;
};

}  // namespace pursuit::apps
