#include "engine/distributed/communicator.h"

#include "engine/distributed/gloo.h"
#include "engine/error.h"

namespace pursuit::distributed {

namespace {

class SingleProcess final : public Communicator {
 public:
  SingleProcess() : Communicator(nullptr) {}
  void start_all_reduce(const Tensor&, Reduction) override {}
  void wait() override {}
  void broadcast(const Tensor&, int) override {}
  void all_gather(const Tensor& mine, const Tensor& all) override {
    copy_values(all, mine.reshape(all.shape()));
  }
};

}  // namespace

void Communicator::barrier() {
  if (control_) control_->barrier();
}
void Communicator::agree(const Description& description) {
  if (control_) control_->agree(description);
}
void Communicator::request_stop() {
  if (control_) control_->request_stop();
}
void Communicator::abort(const std::string& why) {
  if (control_) control_->abort(why);
}
void Communicator::leave() {
  if (control_) control_->leave();
}

std::string missing_backend(Device device) {
  if (device.is_cuda())
    return "ranks on GPUs need NCCL, which this build does not have; train in one process";
  if (!gloo_available())
    return "ranks on CPUs need Gloo, which this build does not have; install Debian's libgloo-dev and build "
           "again, "
           "or train in one process";
  return {};
}

std::unique_ptr<Communicator> connect(const Job& job, Device device, const Options& options) {
  if (job.size == 1) return std::make_unique<SingleProcess>();
  if (const std::string missing = missing_backend(device); !missing.empty()) fail("ranks", missing);
  const auto control = std::make_shared<ControlChannel>(job, options);
  try {
    return gloo_communicator(control, options);
  } catch (const std::exception& error) {
    control->abort(error.what());
    throw;
  }
}

}  // namespace pursuit::distributed
