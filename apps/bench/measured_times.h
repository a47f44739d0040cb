#pragma once
#include <map>
#include <string>
#include <vector>

#include "apps/bench/workload.h"

namespace pursuit::bench {

// The step of a workload at its batch: the parts by profiles, scaled to what a whole step takes as it is run
// in training.
StepTimes measure_times(const Workload& workload, DType dtype, Device device);

// Steps that were measured, by workload.
struct MeasuredTimes {
  std::string device;
  std::map<std::string, StepTimes> steps;
};
void write_times(const MeasuredTimes& times, const std::string& path);
// Throws Error that names the file where it is not one of write_times.
MeasuredTimes read_times(const std::string& path);

}  // namespace pursuit::bench
