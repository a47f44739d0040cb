#pragma once
#include <memory>
#include <string>

#include "engine/core/device.h"
#include "engine/core/tensor.h"
#include "engine/distributed/control.h"
#include "engine/distributed/job.h"

namespace pursuit::distributed {

enum class Reduction { sum, mean, max };  // mean: the sum, times 1 / size

struct Options : ControlOptions {
  // Sums and means are made by gathering all and adding in rank order: ((x0 + x1) + x2) + x3, as one process
  // that adds them one after the other. Without it the order is the backend's (on CPUs of one machine it is
  // this one); all ranks have the same bits either way.
  bool ordered = false;
  // What f32 tensors of a sum or mean travel as: f32, or bf16, with half the bytes. Numbers are added in f32,
  // and rounded to bf16 before every transfer (where they are added in rank order only once, before it).
  DType wire = DType::f32;
  // Every operation first compares on all ranks what it is, its type and its size: an Error instead of a wait
  // without end. Takes some 0.15 ms an operation.
#ifdef NDEBUG
  bool compare_calls = false;
#else
  bool compare_calls = true;
#endif
};

// One of the processes that train together. All ranks call the same operations in the same order, with
// tensors of the same shape and type: contiguous, on the communicator's device or the CPU. An operation
// throws Error where its arguments do not fit, and where another rank is lost (unless on_end has ended the
// process before).
class Communicator {
 public:
  virtual ~Communicator() = default;

  int rank() const { return control_ ? control_->rank() : 0; }
  int size() const { return control_ ? control_->size() : 1; }
  Device device() const { return device_; }
  // What f32 tensors of a sum or mean travel as.
  DType wire() const { return wire_; }
  // Seconds that this rank has been in wait() so far. The slowest rank waits least. On a GPU no host waits.
  double waited() const { return waited_; }

  // In place, beside what is computed next: the tensor is not touched until wait() returns. f32, f64 and i64
  // (no mean of i64). The largest of numbers and a NaN is NaN. On a GPU f32's sums and means can be captured
  // in a graph, wait() with them.
  virtual void start_all_reduce(const Tensor& tensor, Reduction reduction) = 0;
  // Until everything started is done. On a GPU: what its stream is given from now on comes after it.
  virtual void wait() = 0;
  void all_reduce(const Tensor& tensor, Reduction reduction) {
    start_all_reduce(tensor, reduction);
    wait();
  }
  // The root's values, on all ranks. Any type.
  virtual void broadcast(const Tensor& tensor, int root) = 0;
  // `all` is [size, shape of mine]. Any type.
  virtual void all_gather(const Tensor& mine, const Tensor& all) = 0;
  // For a GPU, after a graph with operations was launched: they must end within limits.answer, or the job
  // ends.
  virtual void watch() {}

  // Of the control channel (see control.h), of one process nothing: until all ranks are here; an Error on all
  // ranks where one describes itself otherwise; on_stop on all ranks; the end of the others with a reason;
  // the end in order, which all ranks call.
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

  // What all ranks must do at the same time.
  struct Call {
    const char* name;
    const Tensor& tensor;
    int detail;
    std::string str() const;
    int64_t hash() const;
  };
  // `all`, i64 [size, 1] on the CPU, are the ranks' hashes of their calls.
  void require_same(const Call& call, const Tensor& all) const;
  void require_reducible(const Tensor& tensor, Reduction reduction) const;
  void require_sendable(const Tensor& tensor, int root) const;
  void require_gathered(const Tensor& mine, const Tensor& all) const;

 private:
  void require(const char* name, const Tensor& tensor) const;

  std::shared_ptr<ControlChannel> control_;  // none for one process
  Device device_;
  DType wire_;
};

// The device that `name` means for this rank: of "cuda" every rank of a machine has a GPU of its own, which
// that name means in this process from now on. Throws Error where there are fewer, and for "cuda:1" of
// several ranks.
Device device_of_rank(const std::string& name, const Job& job);

// Meets the other ranks of the job; one process meets nobody. Throws Error where they do not come, are
// others, or where this build lacks what the device needs.
std::unique_ptr<Communicator> connect(const Job& job, Device device, const Options& options = {});

// One process, without others.
Communicator& alone();

// Why ranks cannot train on this device in this build, and what to do; empty where they can.
std::string missing_backend(Device device);

}  // namespace pursuit::distributed
