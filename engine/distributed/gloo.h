#pragma once
#include <memory>

#include "engine/distributed/communicator.h"

namespace pursuit::distributed {

// Whether this build has Gloo.
bool gloo_available();

// Ranks on CPUs, over TCP, those of `one_machine` with shared memory beside it: all ranks call it. Throws
// Error where the connections do not come about.
std::unique_ptr<Communicator> gloo_communicator(std::shared_ptr<ControlChannel> control, bool one_machine,
                                                const Options& options);

}  // namespace pursuit::distributed
