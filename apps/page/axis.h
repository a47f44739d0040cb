#pragma once
#include <string>
#include <vector>

namespace pursuit::apps {

struct Tick {
  double value;
  std::string label;
};

// An axis of a chart: maps values to [0, 1] and places the ticks.
class Axis {
 public:
  // An axis over the data's range [low, high], finite, and positive if `log`. An empty range is widened.
  // `margin` is the fraction of the range that is added on both sides.
  Axis(double low, double high, bool log, double margin);

  double position(double value) const;

  // About `count` ticks at 1, 2 or 5 times a power of ten, all inside the axis.
  std::vector<Tick> ticks(int count) const;

 private:
  double low_, high_;  // logarithms to base 10 if log_
  bool log_;
};

}  // namespace pursuit::apps
