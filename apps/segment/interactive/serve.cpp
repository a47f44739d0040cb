#include <fmt/format.h>

#include <memory>

#include "apps/segment/interactive/clicked_picture.h"
#include "apps/segment/interactive/commands.h"
#include "apps/segment/interactive/page/server.h"
#include "apps/study/loaded_model.h"

namespace pursuit::segment::interactive {

int serve(const ServeCommand& options) {
  const auto loaded = apps::load_model<Config>(options.checkpoint, options.load);
  const Config& c = loaded.config;
  const Look look = [&](const data::Image& picture) -> Masks {
    const auto clicked = std::make_shared<const ClickedPicture>(*loaded.model, c, picture);
    return [clicked](const std::vector<data::Click>& clicks) { return clicked->mask(clicks); };
  };
  return interactive::serve(
      {.port = options.port},
      fmt::format("{}, trained on {}", loaded.name, describe_data(c, data::Split::train)), look);
}

}  // namespace pursuit::segment::interactive
