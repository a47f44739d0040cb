#pragma once
#include <map>
#include <string>
#include <vector>

#include "apps/bench/workload.h"

namespace pursuit::bench {

// A published setting as it is trained on GPUs: `workload.batch` is that of one GPU.
struct Published {
  Workload workload;
  // The step by plan, where nothing was measured; by what it rests on.
  std::map<std::string, StepTimes> estimates;
  double bar = 100;  // percent of a step that communication may leave exposed, in one node
  // Of a language model: the weight of its tied embedding, its width, the rows of it that a step of one GPU
  // looks up, and the words among them, at most.
  std::string tied = {};
  int64_t width = 0, lookups = 0, words = 0;
};
std::vector<Published> published();

}  // namespace pursuit::bench
