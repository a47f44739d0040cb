#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "data/interactive/robot_user.h"

namespace pursuit::segment::interactive {

// What the page asks for: the mask of all clicks on a picture.
struct MaskRequest {
  std::string picture;
  std::vector<data::Click> clicks;
};

// Reads {"picture": "...", "clicks": [{"x": 12, "y": 30, "positive": true}, ...]}. Throws Error, also without
// clicks, with more than `most_clicks`, or with coordinates below 0 or above INT_MAX.
MaskRequest read_mask_request(std::string_view json, int most_clicks);

}  // namespace pursuit::segment::interactive
