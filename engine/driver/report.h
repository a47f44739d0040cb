#pragma once
#include "engine/driver/driver.h"

// Output of a program that runs the driver.
namespace pursuit::driver {

// A line, and one for each of the first failures; or one JSON object.
void print(const Report& r, const char* mode, bool json = false);

struct Counts {
  int passed = 0, failed = 0;
  void add(bool ok) { ++(ok ? passed : failed); }
  int close() const;  // prints "N passed, M failed" and returns the program's exit code
};

// Runs and prints the canaries, on the CPU, since their guards and plain loops need host memory.
void run_canaries(bool json, Counts& counts);

}  // namespace pursuit::driver
