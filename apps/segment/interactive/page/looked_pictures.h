#pragma once
#include <list>
#include <string>
#include <string_view>

#include "apps/segment/interactive/page/mask_request.h"
#include "apps/segment/interactive/page/server.h"
#include "engine/base/error.h"

namespace pursuit::segment::interactive {

// A request that is not served, with the HTTP status that says so.
struct Refused : Error {
  Refused(int status, const std::string& why) : Error(why), status(status) {}
  int status;
};

// The pictures that the model has looked at. Keeps those that were used last. For one thread.
class LookedPictures {
 public:
  explicit LookedPictures(Look look) : look_(std::move(look)) {}

  struct Picture {
    std::string name;  // random
    int width = 0, height = 0;
    Masks masks;
  };
  // Looks at a JPEG or PNG, turned upright. Throws Refused if it is none; what `look` throws.
  const Picture& add(std::string_view file);

  // Throws Refused if the picture is not kept (any more) or a click lies outside; what the model throws.
  data::Image mask(const MaskRequest& request);

 private:
  Look look_;
  std::list<Picture> pictures_;  // the one that was used last first
};

}  // namespace pursuit::segment::interactive
