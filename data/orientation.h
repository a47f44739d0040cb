#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "data/image.h"

// How a camera was held when it took a picture. Cameras store pixels as the sensor gives them and say in the
// file's EXIF data how to turn them.
namespace pursuit::data {

// The tag Orientation of a JPEG's or PNG's EXIF data, 1 to 8; 1, upright, where there is none or it makes no
// sense. For any bytes.
int orientation(std::span<const uint8_t> file);

// The picture turned and mirrored as an orientation of 1 to 8 asks for; above 4 width and height change
// places.
Image upright(const Image& image, int orientation);

// read_image, upright.
Image read_upright(const std::string& path);

}  // namespace pursuit::data
