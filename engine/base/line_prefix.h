#pragma once
#include <string>

namespace pursuit {

// Prefix of this program's lines on stderr: "[rank 3] " when several processes share it.
inline std::string line_prefix;

}  // namespace pursuit
