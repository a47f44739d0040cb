#include "engine/base/error.h"
#include "engine/distributed/gloo.h"

// Replaces gloo.cpp in a build without Gloo.
namespace pursuit::distributed {

bool gloo_available() { return false; }

std::unique_ptr<Communicator> gloo_communicator(std::shared_ptr<ControlChannel>, bool, const Options&) {
  fail("ranks", missing_backend(cpu));
}

}  // namespace pursuit::distributed
