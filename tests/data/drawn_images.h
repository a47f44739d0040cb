#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "data/image.h"

// Pictures that tests draw, and how far two are apart.
namespace pursuit::data {

// A picture from a formula, the same that the reference values below were computed on.
inline Image formula(int width, int height, int channels) {
  Image image(width, height, channels);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        image.at(x, y)[c] = uint8_t((x * 37 + y * 59 + c * 101 + x * y * 13) % 256);
  return image;
}

inline Image waves(int width, int height) {
  Image image(width, height, 3);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        image.at(x, y)[c] = uint8_t(128 + 60 * std::sin(0.21 * x + c) + 50 * std::cos(0.17 * y - c));
  return image;
}

inline double mean_difference(const Image& a, const Image& b) {
  REQUIRE(a.pixels.size() == b.pixels.size());
  double total = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) total += std::abs(int(a.pixels[i]) - int(b.pixels[i]));
  return total / double(a.pixels.size());
}

inline int largest_difference(const Image& a, const std::vector<int>& b) {
  REQUIRE(a.pixels.size() == b.size());
  int largest = 0;
  for (size_t i = 0; i < b.size(); ++i) largest = std::max(largest, std::abs(int(a.pixels[i]) - b[i]));
  return largest;
}

}  // namespace pursuit::data
