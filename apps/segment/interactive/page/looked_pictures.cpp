#include "apps/segment/interactive/page/looked_pictures.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/segment/interactive/page/random_name.h"
#include "data/orientation.h"

namespace pursuit::segment::interactive {
namespace {

constexpr size_t kMostPictures = 8;

data::Image decoded(std::string_view file) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(file.data());
  try {
    return data::upright(data::decode_image(bytes, file.size(), "the picture"),
                         data::orientation({bytes, file.size()}));
  } catch (const Error& e) {
    throw Refused(400, e.what());
  }
}

}  // namespace

const LookedPictures::Picture& LookedPictures::add(std::string_view file) {
  const data::Image picture = decoded(file);
  pictures_.push_front({random_name(), picture.width, picture.height, look_(picture)});
  if (pictures_.size() > kMostPictures) pictures_.pop_back();
  return pictures_.front();
}

data::Image LookedPictures::mask(const MaskRequest& request) {
  const auto found = std::find_if(pictures_.begin(), pictures_.end(),
                                  [&](const Picture& p) { return p.name == request.picture; });
  if (found == pictures_.end())
    throw Refused(
        410, fmt::format("the picture is not kept any more, only the last {}; send it again", kMostPictures));
  pictures_.splice(pictures_.begin(), pictures_, found);
  const Picture& picture = pictures_.front();
  for (const data::Click& click : request.clicks)
    if (click.x >= picture.width || click.y >= picture.height)
      throw Refused(400, fmt::format("a click at {}, {} is outside the picture of {} x {}", click.x, click.y,
                                     picture.width, picture.height));
  data::Image mask = picture.masks(request.clicks);
  if (mask.width != picture.width || mask.height != picture.height || mask.channels != 1)
    fail("serve", fmt::format("the mask has {} x {} pixels and {} channels, need {} x {} and 1", mask.width,
                              mask.height, mask.channels, picture.width, picture.height));
  return mask;
}

}  // namespace pursuit::segment::interactive
