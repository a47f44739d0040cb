#pragma once
#include <memory>

#include "engine/distributed/communicator.h"

namespace pursuit::distributed {

// Whether this build has Gloo.
bool gloo_available();

// Communicator for CPU ranks over TCP, with shared memory if all are on `one_machine`. All ranks call it.
// Throws Error if the connections fail.
std::unique_ptr<Communicator> gloo_communicator(std::shared_ptr<ControlChannel> control, bool one_machine,
                                                const Options& options);

}  // namespace pursuit::distributed
