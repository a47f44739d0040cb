#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/device.h"
#include "engine/dtype.h"

namespace pursuit::bench {

// One thing that is timed: a training step of a model or an operator, on synthetic data that is already in
// memory. tools/bench/torch_twin.py times the same in PyTorch under the same name.
struct Workload {
  enum class Group { model, op } group;
  std::string name, what;
  std::string unit;  // of the items in a batch, e.g. "images"
  int64_t batch;     // default batch size
  bool takes_bf16;   // false: computed in f32 only
  // Builds everything and returns the step. Calling the step runs it once; on a GPU it may still be running.
  std::function<std::function<void()>(int64_t batch, DType dtype, Device device)> make;
};

std::vector<Workload> model_workloads();
std::vector<Workload> operator_workloads();

}  // namespace pursuit::bench
