#pragma once
#include <string_view>

namespace pursuit::segment::interactive {

// The page that is served, its style sheet and its script. In the page {{token}} and {{about}} are to be
// replaced.
extern const std::string_view page_html, page_css, page_js;

}  // namespace pursuit::segment::interactive
