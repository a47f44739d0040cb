#pragma once
#include <memory>
#include <string>

#include "engine/core/device.h"
#include "engine/core/tensor.h"
#include "engine/distributed/control.h"
#include "engine/distributed/job.h"

namespace pursuit::distributed {

enum class Reduction { sum, mean, max };  // mean: the sum times 1 / size

struct Options : ControlOptions {
  // Computes sums and means by gathering all values and adding them in rank order, ((x0 + x1) + x2) + x3,
  // like one process that adds them one after another. Otherwise the order is the backend's (on CPUs of one
  // machine the same one). All ranks get the same bits either way.
  bool ordered = false;
  // The dtype in which f32 tensors of a sum or mean are sent: f32, or bf16 with half the bytes. Numbers are
  // added in f32 and rounded to bf16 before every transfer (only once if `ordered`).
  DType wire = DType::f32;
  // Compares every operation's kind, dtype and size on all ranks first: a mismatch is an Error instead of a
  // deadlock. Costs about 0.15 ms per operation.
#ifdef NDEBUG
  bool compare_calls = false;
#else
  bool compare_calls = true;
#endif
};

// One of the processes (ranks) that train together. All ranks call the same operations in the same order,
// with contiguous tensors of equal shape and dtype on the communicator's device or the CPU. An operation
// throws Error if its arguments do not fit, or if another rank is lost (unless on_end has ended the process
// before).
class Communicator {
 public:
  virtual ~Communicator() = default;

  int rank() const { return control_ ? control_->rank() : 0; }
  int size() const { return control_ ? control_->size() : 1; }
  Device device() const { return device_; }
  // The dtype in which f32 tensors of a sum or mean are sent.
  DType wire() const { return wire_; }
  // Seconds that this rank has spent in wait(); the slowest rank waits least. On a GPU the host never waits.
  double waited() const { return waited_; }

  // Starts an in-place all-reduce that overlaps with the computation: do not touch the tensor until wait()
  // returns. f32, f64 and i64 (no mean of i64). The max of a number and NaN is NaN. On a GPU, sums and means
  // of f32 can be captured in a graph, together with wait().
  virtual void start_all_reduce(const Tensor& tensor, Reduction reduction) = 0;
  // Waits for everything started. On a GPU only the device's stream waits, with later work.
  virtual void wait() = 0;
  void all_reduce(const Tensor& tensor, Reduction reduction) {
    start_all_reduce(tensor, reduction);
    wait();
  }
  // Copies the root's values to all ranks. Any dtype.
  virtual void broadcast(const Tensor& tensor, int root) = 0;
  // `all` is [size, shape of mine]. Any dtype.
  virtual void all_gather(const Tensor& mine, const Tensor& all) = 0;
  // GPU only: call after launching a graph with operations; they must end within limits.answer, or the job
  // ends.
  virtual void watch() {}

  // Barrier, agree (an Error on all ranks if their descriptions differ), request_stop (calls on_stop on all
  // ranks), abort (ends the others with a reason) and leave (the orderly end, called by all) over the control
  // channel, see control.h; no-ops with one process.
  void barrier();
  void agree(const Description& description);
  void request_stop();
  void abort(const std::string& why);
  void leave();

 protected:
  Communicator(std::shared_ptr<ControlChannel> control, Device device, DType wire = DType::f32)
      : control_(std::move(control)), device_(device), wire_(wire) {}
  ControlChannel* control() const { return control_.get(); }
  double waited_ = 0;

  // An operation that all ranks must call at the same time.
  struct Call {
    const char* name;
    const Tensor& tensor;
    int detail;
    std::string str() const;
    int64_t hash() const;
  };
  // `all`, i64 [size, 1] on the CPU, holds the hash of each rank's call.
  void require_same(const Call& call, const Tensor& all) const;
  void require_reducible(const Tensor& tensor, Reduction reduction) const;
  void require_sendable(const Tensor& tensor, int root) const;
  void require_gathered(const Tensor& mine, const Tensor& all) const;

 private:
  void require(const char* name, const Tensor& tensor) const;

  std::shared_ptr<ControlChannel> control_;  // null with one process
  Device device_;
  DType wire_;
};

// The device that `name` means for this rank: with "cuda" each rank of a machine gets its own GPU, which
// "cuda" means in this process from now on. Throws Error if there are not enough GPUs, and for "cuda:1" with
// several ranks.
Device device_of_rank(const std::string& name, const Job& job);

// Connects to the other ranks of the job; with one process there are none. Throws Error if they do not arrive
// or do not match, or if this build lacks what the device needs.
std::unique_ptr<Communicator> connect(const Job& job, Device device, const Options& options = {});

// The communicator of a single process.
Communicator& alone();

// Why ranks cannot train on this device with this build, and what to do; empty if they can.
std::string missing_backend(Device device);

}  // namespace pursuit::distributed
