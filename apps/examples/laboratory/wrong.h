#pragma once
#include <vector>

#include "engine/operator/operator.h"

namespace pursuit::laboratory {

// Deliberately wrong versions, with one mistake each, which the simulated GPU and the driver must detect.
// Empty in other builds, since on hardware a missing barrier may go unnoticed.
std::vector<OperatorInfo> wrong_operators();

}  // namespace pursuit::laboratory
