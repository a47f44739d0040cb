#pragma once
#include <vector>

#include "engine/operator/operator.h"

namespace pursuit::laboratory {

// Versions that are wrong on purpose, each in one way, which the simulated GPU and the driver must catch.
// None in other builds: on hardware a missing barrier may go well.
std::vector<OperatorInfo> wrong_operators();

}  // namespace pursuit::laboratory
