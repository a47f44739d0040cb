#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/image.h"

namespace pursuit::data {

// BMP files, the format of the pictures and masks of GrabCut.

bool is_bmp(const std::vector<uint8_t>& bytes);

// Decodes an uncompressed BMP to RGB. Throws Error that names the file if it is not a BMP, of another kind,
// damaged, truncated or over 64 megapixels.
Image decode_bmp(const std::vector<uint8_t>& bytes, const std::string& name);

}  // namespace pursuit::data
