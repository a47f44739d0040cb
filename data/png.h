#pragma once
#include "data/image.h"

namespace pursuit::data {

// PNG files, read by libspng.

bool is_png(const uint8_t* bytes, size_t size);

// How a PNG stores its pixels; an alpha channel counts as none. Throws as decode_png.
enum class PngKind { grey, palette, rgb };
PngKind png_kind(const std::vector<uint8_t>& bytes, const std::string& name);

// RGB; an alpha channel is dropped, 16 bits become 8. Throws Error that names the file if it is no PNG,
// damaged, truncated, or larger than 64 megapixels.
Image decode_png(const uint8_t* bytes, size_t size, const std::string& name);

// The numbers in a grey or palette PNG of at most 8 bits, unscaled and without the palette's colours, in one
// channel. Throws as decode_png, and for other kinds.
Image decode_index_png(const std::vector<uint8_t>& bytes, const std::string& name);

}  // namespace pursuit::data
