#pragma once
#include <string>
#include <vector>

#include "data/image.h"

namespace pursuit::apps {

// The overlays for `corruptions`: those of --frost, `folder`, or drawn crystals where it is empty. If frost
// is among the corruptions, a note on stderr says that crystals stand for the overlays. Throws Error as
// data::read_frost does.
std::vector<data::Image> frost_overlays(const std::string& folder,
                                        const std::vector<std::string>& corruptions);

}  // namespace pursuit::apps
