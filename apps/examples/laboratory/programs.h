#pragma once
#include <string>
#include <vector>

// The commands of the program `laboratory`. Each returns the program's exit code.
namespace pursuit::laboratory {

// Holds the operators of these names, or all, against the engine's by the operators' driver.
int check(const std::vector<std::string>& names);
// Prints what each version does, as the tables of README.md.
int count();
// Times the products of the CPU beside the engine's, one run of each in turn; medians over the rounds.
int bench_cpu(int rounds);
// Times the kernels beside the engine's. Without a GPU: one line, and 2.
int bench_gpu();

}  // namespace pursuit::laboratory
