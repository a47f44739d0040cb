#pragma once
#include <memory>

#include "engine/distributed/communicator.h"

namespace pursuit::distributed {

// Whether this build has NCCL.
bool nccl_available();

// Communicator for GPU ranks, each on its own GPU. All ranks call it. Throws Error if the connection fails.
std::unique_ptr<Communicator> nccl_communicator(std::shared_ptr<ControlChannel> control, Device device,
                                                const Options& options);

}  // namespace pursuit::distributed
