#include "nn/noise.h"

#include "engine/copy.h"

namespace pursuit::nn {

void Noise::set_step(uint64_t new_seed, uint64_t step, Device device) {
  constexpr uint64_t streams_per_step = 1024;
  const uint64_t first = step * streams_per_step;
  seed = new_seed;
  stream = device.is_cuda() ? 0 : first;
  if (!device.is_cuda()) return;
  if (!counter.defined()) counter = empty({}, DType::i64, device);
  write_small(counter, &first);
}

}  // namespace pursuit::nn
