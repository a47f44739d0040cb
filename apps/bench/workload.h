#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench/model_step.h"
#include "engine/core/device.h"
#include "engine/core/dtype.h"
#include "nn/module.h"

namespace pursuit::bench {

// Everything built, ready to run.
struct Step {
  std::function<void()> run;              // once; on a GPU it may still be running
  std::shared_ptr<ModelStep> model = {};  // empty for operators
  double weight_bytes = 0;                // bytes of weights read per item; 0: not reported
};

// One thing that is timed: a training step of a model, a model that is used, or an operator, on synthetic data
// that is already in memory. tools/bench/torch_twin.py times the same in PyTorch under the same name.
struct Workload {
  enum class Group { model, inference, op } group;
  std::string name, what;
  std::string unit;  // of the items in a batch, e.g. "images"
  int64_t batch;     // default batch size
  bool takes_bf16;   // false: computed in f32 only
  std::function<Step(int64_t batch, DType dtype, Device device)> make;
  std::function<std::unique_ptr<nn::Module>()> model = {};  // not initialised yet; empty for operators
  // What its products multiply on a CPU: RPC-Attention and convolutions f32 numbers whatever the dtype.
  enum class Factors { as_dtype, f32, as_dtype_and_f32, int8_and_f32 } factors = Factors::as_dtype;
};

inline Workload with_factors(Workload::Factors factors, Workload workload) {
  workload.factors = factors;
  return workload;
}

std::vector<Workload> model_workloads();
std::vector<Workload> inference_workloads();
std::vector<Workload> operator_workloads();

}  // namespace pursuit::bench
