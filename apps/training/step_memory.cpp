#include "apps/training/step_memory.h"

#include <fmt/format.h>

#include <optional>

#include "apps/training/free_memory.h"
#include "engine/core/shapes_only.h"
#include "engine/distributed/job.h"
#include "nn/optim.h"

namespace pursuit::apps {

namespace {

// Host memory of kernels, threads, loader and decoders: 4 to 113 MiB in tests/hostile/memory_test.cpp, most
// where products of bf16 widen their factors.
constexpr int64_t beside_the_pool = 40 << 20;

}  // namespace

void train_on_shapes(nn::Module& model, const TrainingFields& f, const std::function<nn::Loss()>& loss,
                     const std::function<void()>& evaluate) {
  nn::FlatParameters flat(
      model, [](const std::string&, const Tensor&) { return true; }, f.dtype);
  nn::Optimizer optimizer(flat, optimizer_config(f));
  std::optional<nn::Ema> ema;
  if (f.ema > 0) ema.emplace(flat, f.ema);
  model.set_training(true);
  flat.zero_grad();
  loss().minimised.backward();
  model.set_training(false);
  evaluate();
}

int64_t memory_of(Device device, const std::function<void()>& work) {
  const ShapesOnly shapes;
  work();
  return shapes.peak() + (device.is_cuda() ? 0 : beside_the_pool);
}

void require_memory(const char* app, Device device, const std::string& lower,
                    const std::function<void()>& work) {
  const FreeMemory free = free_memory(device, distributed::job_from_environment().local_size);
  const int64_t bytes = memory_of(device, work);
  if (bytes > free.bytes)
    fail(app, fmt::format("this takes about {} of memory, and {} are left ({}); lower {}",
                          format_bytes(bytes), format_bytes(free.bytes), free.limit, lower));
}

}  // namespace pursuit::apps
