#pragma once
#include <string>
#include <vector>

#include "apps/bench/step_times.h"
#include "engine/distributed/communicator.h"

namespace pursuit::bench {

// A training step of a model with everything it needs: forward, loss, backward and the optimizer's.
class ModelStep {
 public:
  virtual ~ModelStep() = default;
  // Once; on a GPU it may still be running then.
  virtual void run() = 0;
  // Once, operator by operator, waiting for the device wherever a gradient arrives.
  virtual StepTimes profile() = 0;
  // Once for each of them, without dropout; the means of all ranks.
  virtual std::vector<double> losses(int steps) = 0;

  // Writes a safetensors file: the parameters by their names, and the batch as batch.images and so on.
  virtual void save(const std::string& path) const = 0;
  // From now on this is the step of one rank, with its part of the batch and the mean of all ranks'
  // gradients. `ranks` outlives it.
  virtual void join(distributed::Communicator& ranks) = 0;
};

}  // namespace pursuit::bench
