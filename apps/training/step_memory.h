#pragma once
#include <functional>
#include <string>

#include "apps/training/task.h"

// What work takes of a device's memory, known before it is taken: it is done on shapes alone, see
// engine/core/shapes_only.h.
namespace pursuit::apps {

// What a training does with its model: gradients, optimizer, averaged weights, one step and an evaluation.
// For shapes alone.
void train_on_shapes(nn::Module& model, const TrainingFields& fields, const std::function<nn::Loss()>& loss,
                     const std::function<void()>& evaluate);

// Bytes that the process takes at most, on the device, for `work`, which makes all its tensors by itself.
int64_t memory_of(Device device, const std::function<void()>& work);

// Throws Error with both figures and what to `lower` unless the device has as much as `work` takes.
void require_memory(const char* app, Device device, const std::string& lower,
                    const std::function<void()>& work);

}  // namespace pursuit::apps
