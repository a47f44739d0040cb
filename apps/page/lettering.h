#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "data/image.h"

namespace pursuit::apps {

// Letters for pictures that must explain themselves without a page around them: capitals of 5 x 7 pixels on
// cells of 6 x 9, `scale` times as large. A character that the letters lack (other alphabets) is a frame.
struct Lettering {
  int scale = 1;
  int width(std::string_view utf8) const;  // pixels
  int height() const { return 9 * scale; }
  // Draws with the upper left corner of the first cell at (x, y) into an RGB picture; what falls outside is
  // left out.
  void draw(data::Image& picture, int x, int y, std::string_view utf8, std::array<uint8_t, 3> rgb) const;
};

}  // namespace pursuit::apps
