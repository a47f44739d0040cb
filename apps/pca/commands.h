#pragma once
#include <string>
#include <vector>

namespace pursuit::pca {

// The command line of `pca`. Returns the exit code.
int run(std::vector<std::string> args);

}  // namespace pursuit::pca
