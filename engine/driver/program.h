#pragma once
#include <string>
#include <vector>

// The program `ops` without its command line, for others of its kind.
namespace pursuit::driver {

struct Options {
  std::string mode;                   // list, check, grad, canaries or bench
  std::vector<std::string> names;     // of operators; none: all
  std::string device = "cpu", dtype;  // no dtype: f32 and bf16, under bench f32
  bool json = false, contiguous = false;
  int at_least = 0;  // operators that the inventory must hold where all are asked for
};
// Prints what the mode finds out and returns the exit code of a program.
int run(const Options& options);

}  // namespace pursuit::driver
