#pragma once
#include <memory>

#include "engine/core/tensor.h"

// Ways between host and device beside the computation. On the CPU they are plain copies.
namespace pursuit {

// An event of a GPU's streams.
class Event {
 public:
  explicit Event(int device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(void* stream);
  void block(void* stream) const;  // later work on `stream` waits for the event (cudaStreamWaitEvent)
  void wait() const;               // the host does; at once if nothing was recorded
  bool done() const;               // whether it would not have to wait; from any thread

 private:
  void* handle_;
};

// Copies one input of every step into the same tensor on the device. Values are copied to pinned memory, from
// there to the device on a stream of its own while the device works on the batch before, and into the tensor
// in front of what is launched next.
class Upload {
 public:
  Upload(const Shape& shape, DType dtype, Device device);
  ~Upload();
  const Tensor& tensor() const { return tensor_; }
  void send(const void* values);  // tensor().numel() of them; may be changed on return

 private:
  struct Slot {
    explicit Slot(int device) : arrived(device), used(device) {}
    Tensor pinned, staged;
    Event arrived, used;
  };
  Tensor tensor_;
  std::unique_ptr<Slot> slots_[2];
  int next_ = 0;
};

// The way of one f32 number back to the host: start at once, wait later.
class Readback {
 public:
  explicit Readback(Device device);
  void start(const Tensor& x);
  float wait() const;

 private:
  Tensor host_;
  std::unique_ptr<Event> arrived_;  // of a GPU
};

}  // namespace pursuit
