#include "data/routing/published.h"
#include "data/routing/tsplib.h"
#include "engine/base/error.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

// By both readers.
void read(std::string_view input) {
  const std::string path = write("instance", input);
  try {
    data::read_tsplib(path);
  } catch (const Error&) {
  }
  data::read_published(path);
}

}  // namespace

const Target target{.read = read};

}  // namespace pursuit::fuzz
