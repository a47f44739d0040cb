#pragma once
#include <vector>

#include "engine/base/choice.h"

namespace pursuit::data {

// A part of a data set. Sets with one held-out part alone return it for val and for test.
enum class Split { train, val, test };
inline std::vector<Choice<Split>> choices_of(Split) {
  return {{"train", Split::train}, {"val", Split::val}, {"test", Split::test}};
}

}  // namespace pursuit::data
