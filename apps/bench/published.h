#pragma once
#include <map>
#include <string>
#include <vector>

#include "apps/bench/workload.h"

namespace pursuit::bench {

// A published training setting; `workload.batch` is the batch of one GPU.
struct Published {
  Workload workload;
  // Estimated steps, used without measurements; the key names the assumption.
  std::map<std::string, StepTimes> estimates;
  double bar = 100;  // largest allowed exposed communication in one node, percent of a step
  // Language models: name and width of the tied embedding, and upper bounds of the rows that a step of one
  // GPU looks up and of the different words among them.
  std::string tied = {};
  int64_t width = 0, lookups = 0, words = 0;
};
std::vector<Published> published();

}  // namespace pursuit::bench
