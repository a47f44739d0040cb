#pragma once
#include <memory>

#include "engine/distributed/communicator.h"

namespace pursuit::distributed {

// Whether this build has NCCL.
bool nccl_available();

// Ranks on GPUs, each on one of its own: all ranks call it. Throws Error where they do not come together.
std::unique_ptr<Communicator> nccl_communicator(std::shared_ptr<ControlChannel> control, Device device,
                                                const Options& options);

}  // namespace pursuit::distributed
