#pragma once
#include <functional>
#include <string>

#include "apps/training/task.h"

// The device memory that work needs, computed in advance by running it on shapes alone
// (engine/core/shapes_only.h).
namespace pursuit::apps {

// Runs on shapes alone what training does with its model: gradients, optimizer, averaged weights, one step
// and an evaluation.
void train_on_shapes(nn::Module& model, const TrainingFields& fields, const std::function<nn::Loss()>& loss,
                     const std::function<void()>& evaluate);

// The peak memory in bytes that `work` takes on the device. `work` must create all its tensors.
int64_t memory_of(Device device, const std::function<void()>& work);

// The `lower` of a resumed run's training.
inline constexpr const char* lower_in_resumed = "--eval-batch-size: a resumed run keeps its other sizes";

// Throws Error with both sizes and the options to `lower` if the device has less memory than `work` takes.
void require_memory(const char* app, Device device, const std::string& lower,
                    const std::function<void()>& work);

}  // namespace pursuit::apps
