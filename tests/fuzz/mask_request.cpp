#include "apps/segment/interactive/page/mask_request.h"

#include <cstdlib>

#include "engine/base/error.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

constexpr int kMostClicks = 4;

void read(std::string_view input) {
  try {
    const auto request = segment::interactive::read_mask_request(input, kMostClicks);
    if (request.clicks.empty() || request.clicks.size() > kMostClicks) std::abort();
    for (const data::Click& click : request.clicks)
      if (click.x < 0 || click.y < 0) std::abort();
  } catch (const Error&) {
  }
}

std::vector<std::string> seeds() {
  return {
      R"({"picture": "325b", "clicks": [{"x": 12, "y": 30, "positive": true}]})",
      R"({"picture": "", "clicks": [{"x": 0, "y": 2147483647, "positive": false}, {"x": 1.5, "y": -1}]})"};
}

}  // namespace

const Target target{.read = read, .seeds = seeds};

}  // namespace pursuit::fuzz
