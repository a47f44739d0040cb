#include "engine/base/error.h"
#include "engine/distributed/nccl.h"

namespace pursuit::distributed {

bool nccl_available() { return false; }

std::unique_ptr<Communicator> nccl_communicator(std::shared_ptr<ControlChannel>, Device, const Options&) {
  fail("ranks", missing_backend(cuda_device()));
}

}  // namespace pursuit::distributed
