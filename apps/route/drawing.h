#pragma once
#include <string>

#include "data/routing/instance.h"

namespace pursuit::route {

// A solution as an SVG element of `side` pixels: nodes, the depot as a square, and every route in a colour.
std::string to_svg(const data::RoutingInstance& instance, const data::Routes& routes, int side = 300);

}  // namespace pursuit::route
