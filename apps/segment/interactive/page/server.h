#pragma once
#include <functional>
#include <string>
#include <vector>

#include "data/image.h"
#include "data/interactive/robot_user.h"

namespace pursuit::segment::interactive {

// From the clicks so far, in the picture's pixels, to the mask of the picture's size: one channel, 1 the
// object, 0 all else.
using Masks = std::function<data::Image(const std::vector<data::Click>&)>;
// Looks at a picture once; the masks for clicks follow.
using Look = std::function<Masks(const data::Image& picture)>;

struct ServeOptions {
  int port = 0;           // of 127.0.0.1: 1024 to 65535, or 0 for a free one
  int most_clicks = 256;  // of one mask
};

// Serves a page on which a person clicks on a picture and sees the mask. Prints the page's address as one
// line on stdout; it contains a random token, without which every request is refused. Only programs on this
// machine reach the server. `about` names the model on the page. Calls `look` and the masks in the calling
// thread only; what they throw is shown on the page in one line. Runs until a stop is requested
// (apps/terminal/signals.h) and returns 0. Throws Error if the port cannot be had.
int serve(const ServeOptions& options, const std::string& about, const Look& look);

}  // namespace pursuit::segment::interactive
