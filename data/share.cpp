#include "data/share.h"

#include <string>

#include "engine/base/error.h"

namespace pursuit::data {

void check(const char* where, const Share& s) {
  if (s.first < 0 || s.count < 1 || s.first > s.of - s.count)
    fail(where, "got batches " + std::to_string(s.first) + " to " + std::to_string(s.first + s.count - 1) +
                    " of the " + std::to_string(s.of) + " of a step, need some that there are");
}

}  // namespace pursuit::data
