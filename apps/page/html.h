#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/image.h"

namespace pursuit::apps {

// Escapes text for HTML content and quoted attributes. Control characters except tabs and line breaks become
// spaces; bytes that are not UTF-8 become U+FFFD.
std::string escape_html(std::string_view text);

std::string base64(const std::vector<uint8_t>& bytes);

// The picture as "data:image/png;base64,...".
std::string png_data_uri(const data::Image& image);

}  // namespace pursuit::apps
