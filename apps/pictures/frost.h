#pragma once
#include <string>
#include <vector>

#include "data/image.h"

namespace pursuit::apps {

// The overlays for the corruption frost, from `folder` (--frost). If it is empty, drawn crystals are used
// and, if frost is among the corruptions, a note on stderr says so. Throws Error as data::read_frost does.
std::vector<data::Image> frost_overlays(const std::string& folder,
                                        const std::vector<std::string>& corruptions);

}  // namespace pursuit::apps
