#include "data/text/vocabulary.h"

#include <cstdlib>

#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

void read(std::string_view input) {
  const auto vocabulary = data::Vocabulary::of_list(input, "input");
  // An accepted list must be written unchanged.
  const std::string list = vocabulary.list();
  if (list != input && list != std::string(input) + "\n") std::abort();
}

}  // namespace

const Target target{.read = read};

}  // namespace pursuit::fuzz
