#pragma once
#include <string>

#include "data/image.h"

namespace pursuit::segment::interactive {

// A mask of 0 and 1 as a PNG of 0 and 255, in one grey channel. Much faster than data::encode_png.
std::string mask_png(const data::Image& mask);

}  // namespace pursuit::segment::interactive
