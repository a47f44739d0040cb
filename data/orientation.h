#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "data/image.h"

// EXIF orientation: cameras store pixels as the sensor delivers them, and record in the EXIF data how to turn
// them.
namespace pursuit::data {

// The EXIF tag Orientation of a JPEG or PNG, 1 to 8; 1 (upright) if it is missing or invalid. Accepts any
// bytes.
int orientation(std::span<const uint8_t> file);

// The image rotated and mirrored according to an orientation of 1 to 8; above 4, width and height are
// swapped.
Image upright(const Image& image, int orientation);

// read_image, turned upright.
Image read_upright(const std::string& path, const Decoding& decoding = {});

}  // namespace pursuit::data
