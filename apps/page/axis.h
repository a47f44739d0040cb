#pragma once
#include <string>
#include <vector>

namespace pursuit::apps {

struct Tick {
  double value;
  std::string label;
};

// One axis of a chart: maps values to [0, 1] and knows where its ticks are.
class Axis {
 public:
  // An axis over [low, high] (the data's range, finite; positive if `log`). A range without extent is
  // widened; `margin` is the part of the range that is added on both sides.
  Axis(double low, double high, bool log, double margin);

  double position(double value) const;

  // About `count` ticks at 1, 2 or 5 times a power of ten, all inside the axis.
  std::vector<Tick> ticks(int count) const;

 private:
  double low_, high_;  // logarithms to base 10 if log_
  bool log_;
};

}  // namespace pursuit::apps
