#pragma once
#include "data/image.h"

namespace pursuit::data {

enum class PngKind { grey, palette, rgb };

// How a PNG stores its pixels; an alpha channel counts as none. Throws if `bytes` do not begin as a PNG does.
PngKind png_kind(const std::vector<uint8_t>& bytes, const std::string& name);

// The numbers in a grey or palette PNG of at most 8 bits, unscaled and without the palette's colours, in one
// channel. Throws as decode_image, and for other kinds.
Image decode_index_png(const std::vector<uint8_t>& bytes, const std::string& name);

}  // namespace pursuit::data
