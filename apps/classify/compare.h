#pragma once
#include <string>
#include <vector>

#include "apps/training/comparison.h"

namespace pursuit::classify {

// Accuracies, errors and mCE in percent. Throws Error that names the folder and what it lacks if one is no
// run.
apps::Comparison compare_runs(const std::vector<std::string>& folders);

}  // namespace pursuit::classify
