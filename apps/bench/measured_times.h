#pragma once
#include <map>
#include <string>
#include <vector>

#include "apps/bench/workload.h"

namespace pursuit::bench {

// Measures a workload's step with its default batch. The parts come from profiles and are scaled to the time
// of a whole step as run in training.
StepTimes measure_times(const Workload& workload, DType dtype, Device device);

// Measured steps by workload.
struct MeasuredTimes {
  std::string device;
  std::map<std::string, StepTimes> steps;
};
void write_times(const MeasuredTimes& times, const std::string& path);
// Reads a file of write_times. Throws Error that names the file if it is not one.
MeasuredTimes read_times(const std::string& path);

}  // namespace pursuit::bench
