#include "apps/training/step_memory.h"

#include <fmt/format.h>

#include <optional>

#include "apps/common/free_memory.h"
#include "engine/shapes_only.h"
#include "nn/optim.h"

namespace pursuit::apps {

void train_on_shapes(nn::Module& model, const TrainingFields& f, const std::function<Loss()>& loss,
                     const std::function<void()>& evaluate) {
  nn::FlatParameters flat(
      model.parameters(), [](const std::string&, const Tensor&) { return true; }, dtype_from_name(f.dtype));
  nn::Optimizer optimizer(flat, optimizer_config(f));
  std::optional<nn::Ema> ema;
  if (f.ema > 0) ema.emplace(flat, f.ema);
  model.set_training(true);
  flat.zero_grad();
  loss().minimised.backward();
  model.set_training(false);
  evaluate();
}

int64_t memory_of(const std::function<void()>& work) {
  const ShapesOnly shapes;
  work();
  return shapes.peak();
}

void require_memory(const char* app, Device device, const std::string& lower,
                    const std::function<void()>& work) {
  const FreeMemory free = free_memory(device);
  const int64_t bytes = memory_of(work);
  if (bytes > free.bytes)
    fail(app, fmt::format("this takes about {} of memory, and {} are left ({}); lower {}",
                          format_bytes(bytes), format_bytes(free.bytes), free.limit, lower));
}

}  // namespace pursuit::apps
