#pragma once
#include <cstdint>
#include <vector>

#include "data/image.h"

namespace pursuit::data {

// The squared Euclidean distance of every pixel to the nearest one that is not marked, [height * width]; 0
// where a pixel is not marked itself. Beyond the border nothing is marked. `marked` has one channel. Exact,
// in time linear in the number of pixels (Felzenszwalb & Huttenlocher 2012).
std::vector<int64_t> squared_distances(const Image& marked);

// The pixels that are connected to each other by their four neighbours and have the same value, `ignored`
// apart: the number of each pixel's component, from 0 in raster order of their first pixels, or -1.
struct Components {
  std::vector<int32_t> of_pixel;  // [height * width]
  std::vector<int64_t> area;      // pixels of each
};
Components components(const Image& values, uint8_t ignored);

}  // namespace pursuit::data
