#pragma once
#include "data/image.h"

namespace pursuit::data {

// PNG files, read by libspng.

bool is_png(const uint8_t* bytes, size_t size);

// How a PNG stores its pixels, ignoring alpha. Throws as decode_png.
enum class PngKind { grey, palette, rgb };
PngKind png_kind(const std::vector<uint8_t>& bytes, const std::string& name);

// Decodes to RGB; an alpha channel is dropped, 16 bits become 8. Throws Error that names the file if it is
// not a PNG, damaged, truncated or over 64 megapixels.
Image decode_png(const uint8_t* bytes, size_t size, const std::string& name);

// The raw numbers in a grey or palette PNG of at most 8 bits, neither scaled nor mapped to the palette's
// colours, in one channel. Throws as decode_png, and for other kinds.
Image decode_index_png(const std::vector<uint8_t>& bytes, const std::string& name);

}  // namespace pursuit::data
