#pragma once
#include "data/image.h"

namespace pursuit::data {

// Whether this build has libjpeg-turbo.
bool has_turbo();
// Throws Error if the decoding asks for it and this build does not have it.
void check_decoder(const Decoding& decoding);

// decode_part of a JPEG by libjpeg-turbo, which skips what it need not decode: the rows below the part, the
// transforms of blocks beside and above it. Without `choose` the whole picture. Throws Error if this build
// does not have it.
Image decode_turbo(const uint8_t* bytes, size_t size, const std::string& name, bool scaled,
                   const ChoosePart& choose = {});

}  // namespace pursuit::data
