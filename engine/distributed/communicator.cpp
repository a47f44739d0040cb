#include "engine/distributed/communicator.h"

#include "cuda/runtime.h"
#include "engine/base/error.h"
#include "engine/distributed/gloo.h"
#include "engine/distributed/nccl.h"
#include "engine/distributed/secret.h"

namespace pursuit::distributed {

namespace {

class SingleProcess final : public Communicator {
 public:
  explicit SingleProcess(Device device) : Communicator(nullptr, device) {}
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

Device device_of_rank(const std::string& name, const Job& job) {
  const Device device = device_from_name(name);
  if (!device.is_cuda() || job.local_size == 1) return device;
  const std::string ranks = std::to_string(job.local_size) + " ranks are on this machine";
  if (name.starts_with("cuda:"))
    fail("ranks", "--device " + name + " is one GPU, and " + ranks + "; --device cuda gives each its own");
  // If only one is visible, the launcher may have given each rank its own.
  const int gpus = cuda::device_count();
  if (gpus > 1 && job.local_size > gpus)
    fail("ranks", ranks + ", which has " + std::to_string(gpus) + " GPUs; start at most one a GPU");
  use_gpu(job.local_rank % gpus);
  return device_from_name(name);
}

std::string missing_backend(Device device) {
  if (device.is_cuda() && !nccl_available())
    return "ranks on GPUs need NCCL, which this build does not have; install libnccl-dev of NVIDIA's "
           "packages "
           "(or see tools/install-cuda) and build again, or train in one process";
  if (!device.is_cuda() && !gloo_available())
    return "ranks on CPUs need Gloo, which this build does not have; install Debian's libgloo-dev and build "
           "again, or train in one process";
  return {};
}

std::string Communicator::Call::str() const {
  return std::string(name) + " of " + name_of(tensor.dtype()) + tensor.shape().str();
}

int64_t Communicator::Call::hash() const {
  return int64_t(distributed::hash(str() + " " + std::to_string(detail)));
}

void Communicator::require_same(const Call& call, const Tensor& all) const {
  for (int other = 0; other < size(); ++other)
    if (all.data<int64_t>()[other] != call.hash())
      fail("ranks", "rank " + std::to_string(rank()) + " is at " + call.str() + ", and rank " +
                        std::to_string(other) + " at another operation or size");
}

void Communicator::require(const char* name, const Tensor& tensor) const {
  if (!tensor.defined()) fail(name, "got an undefined tensor");
  if (!tensor.is_contiguous() || (tensor.device() != device_ && tensor.device() != cpu))
    fail(name, "needs a contiguous tensor on " + device_.name() + " or the CPU, got " + tensor.str());
}

void Communicator::require_reducible(const Tensor& tensor, Reduction reduction) const {
  require("all-reduce", tensor);
  const DType type = tensor.dtype();
  if (type != DType::f32 && type != DType::f64 && type != DType::i64)
    fail("all-reduce", "is of f32, f64 and i64, got " + tensor.str());
  if (type == DType::i64 && reduction == Reduction::mean)
    fail("all-reduce", "there is no mean of " + tensor.str());
}

void Communicator::require_sendable(const Tensor& tensor, int root) const {
  require("broadcast", tensor);
  if (root < 0 || root >= size())
    fail("broadcast", "got root " + std::to_string(root) + " of " + std::to_string(size()) + " ranks");
}

void Communicator::require_gathered(const Tensor& mine, const Tensor& all) const {
  require("all-gather", mine);
  require("all-gather", all);
  Shape shape = mine.shape();
  shape.insert(0, size());
  if (all.dtype() != mine.dtype() || all.device() != mine.device() || !(all.shape() == shape))
    fail("all-gather",
         "of " + mine.str() + " on " + std::to_string(size()) + " ranks does not fit into " + all.str());
}

std::unique_ptr<Communicator> connect(const Job& job, Device device, const Options& options) {
  if (job.size == 1) return std::make_unique<SingleProcess>(device);
  if (const std::string missing = missing_backend(device); !missing.empty()) fail("ranks", missing);
  const auto control = std::make_shared<ControlChannel>(job, options);
  try {
    // Otherwise they would wait for each other in different places.
    control->agree({{"the device", device.is_cuda() ? "a GPU" : "a CPU"},
                    {"the number of machines", job.on_one_machine() ? "1" : "more than 1"}});
    return device.is_cuda() ? nccl_communicator(control, device, options)
                            : gloo_communicator(control, job.on_one_machine(), options);
  } catch (const std::exception& error) {
    control->abort(error.what());
    throw;
  }
}

Communicator& alone() {
  static const std::unique_ptr<Communicator> one = connect({}, cpu);
  return *one;
}

}  // namespace pursuit::distributed
