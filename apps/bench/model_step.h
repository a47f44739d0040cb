#pragma once
#include <string>
#include <vector>

#include "apps/bench/step_times.h"
#include "engine/distributed/communicator.h"

namespace pursuit::bench {

// A training step of a model: forward, loss, backward and optimizer.
class ModelStep {
 public:
  virtual ~ModelStep() = default;
  // Runs one step; asynchronous on a GPU.
  virtual void run() = 0;
  // Runs one step operator by operator and waits for the device whenever a gradient arrives.
  virtual StepTimes profile() = 0;
  // Runs steps without dropout; returns their losses, averaged over the ranks.
  virtual std::vector<double> losses(int steps) = 0;

  // Writes a safetensors file with the parameters and the batch ("batch.images" etc.).
  virtual void save(const std::string& path) const = 0;
  // Makes this the step of one rank: with its part of the batch and gradients averaged over the ranks.
  // `ranks` must outlive it.
  virtual void join(distributed::Communicator& ranks) = 0;
};

}  // namespace pursuit::bench
