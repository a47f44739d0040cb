#pragma once
#include <string>
#include <vector>

// The program `ops` without its command line, for similar programs.
namespace pursuit::driver {

struct Options {
  std::string mode;                   // list, check, grad, canaries or bench
  std::vector<std::string> names;     // of operators; empty: all
  std::string device = "cpu", dtype;  // no dtype: f32 and bf16, under bench f32
  bool json = false, contiguous = false;
  int at_least = 0;  // minimum number of operators in the inventory if all are requested
};
// Runs the mode, prints its results and returns the program's exit code.
int run(const Options& options);

}  // namespace pursuit::driver
