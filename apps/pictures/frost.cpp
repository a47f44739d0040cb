#include "apps/pictures/frost.h"

#include <algorithm>

#include "apps/terminal/print.h"
#include "data/corruptions.h"

namespace pursuit::apps {

std::vector<data::Image> frost_overlays(const std::string& folder,
                                        const std::vector<std::string>& corruptions) {
  if (!folder.empty()) return data::read_frost(folder);
  if (std::find(corruptions.begin(), corruptions.end(), "frost") == corruptions.end()) return {};
  note(
      "note: frost is of drawn crystals, so its results are not those of ImageNet-C's overlays; name a "
      "folder with frost1 to frost5 by --frost\n");
  return data::drawn_frost();
}

}  // namespace pursuit::apps
