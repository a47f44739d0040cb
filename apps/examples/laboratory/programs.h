#pragma once
#include <string>
#include <vector>

// The commands of the program `laboratory`. Each returns the program's exit code.
namespace pursuit::laboratory {

// Checks the operators of these names, or all, against the engine's with the operator driver.
int check(const std::vector<std::string>& names);
// Prints the counts of each version as the tables of README.md.
int count();
// Times the CPU's products and the engine's, alternating; prints medians over the rounds.
int bench_cpu(int rounds);
// Times the kernels and the engine's. Without a GPU prints one line and returns 2.
int bench_gpu();

}  // namespace pursuit::laboratory
