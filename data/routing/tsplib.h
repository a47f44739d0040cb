#pragma once
#include <string>

#include "data/routing/instance.h"

namespace pursuit::data {

// Reads an instance of TSPLIB (.tsp) or CVRPLIB (.vrp) whose weights are EUC_2D, CEIL_2D, ATT or GEO of its
// NODE_COORD_SECTION. Of a CVRP the depot becomes node 0, and the others keep their order. Other weights,
// several depots, limits on a route's length and other types (ATSP, HCP, ...) are refused. Throws Error that
// names the file.
RoutingInstance read_tsplib(const std::string& path);

}  // namespace pursuit::data
