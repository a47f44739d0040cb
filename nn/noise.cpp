#include "nn/noise.h"

#include "engine/copy.h"

namespace pursuit::nn {

void Noise::set_step(uint64_t new_seed, uint64_t step, Device device) {
  const uint64_t first = streams::noise.at(step * streams::step::count);
  seed = new_seed;
  stream = device.is_cuda() ? 0 : first;
  if (!device.is_cuda()) return;
  if (!counter.defined()) counter = empty({}, DType::i64, device);
  counter.bump_version("the next step's noise");
  write_small(counter, &first);
}

}  // namespace pursuit::nn
