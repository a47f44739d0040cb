#include <chrono>
#include <thread>

#include "apps/segment/interactive/page/server.h"
#include "engine/base/error.h"
#include "engine/program/program.h"

// Serves the page of `segment interactive serve` for a model that is none: the mask of discs around the
// positive clicks, without those around the negative ones. Usage: serve_toy [MILLISECONDS of a look [of a
// mask]]
namespace {

using namespace pursuit;

constexpr int kRadius = 30;

data::Image discs(int width, int height, const std::vector<data::Click>& clicks) {
  data::Image mask(width, height, 1);
  const auto within = [](const data::Click& c, int x, int y) {
    return (x - c.x) * (x - c.x) + (y - c.y) * (y - c.y) <= kRadius * kRadius;
  };
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      bool in = false, out = false;
      for (const data::Click& click : clicks) (click.positive ? in : out) |= within(click, x, y);
      *mask.at(x, y) = in && !out ? 1 : 0;
    }
  return mask;
}

int run(const std::vector<std::string>& args) {
  const auto wait = [&](size_t i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(i < args.size() ? std::stoi(args[i]) : 0));
  };
  const segment::interactive::Look look = [=](const data::Image& picture) -> segment::interactive::Masks {
    wait(0);
    // Of pictures with a red corner it will have none.
    const uint8_t* corner = picture.at(0, 0);
    if (corner[0] == 255 && corner[1] == 0 && corner[2] == 0) fail("toy", "no pictures\nwith a red corner");
    return [=, width = picture.width, height = picture.height](const std::vector<data::Click>& clicks) {
      wait(1);
      if (clicks.front().x == 0 && clicks.front().y == 0) throw std::runtime_error("a click into the corner");
      return discs(width, height, clicks);
    };
  };
  return segment::interactive::serve({}, "toy <model> & discs", look);
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
