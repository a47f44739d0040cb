#include "nn/generator.h"

#include "engine/operator/copy.h"

namespace pursuit::nn {

void Generator::set_step(uint64_t new_seed, uint64_t step, uint64_t batch, Device device) {
  const uint64_t numbers[2] = {streams::noise.at(step * streams::step::count), batch};
  seed = new_seed;
  if (!counter.defined()) counter = empty({2}, DType::i64, device);
  counter.bump_version("the next step's random numbers");
  write_small(counter, numbers);
}

}  // namespace pursuit::nn
