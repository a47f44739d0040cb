#pragma once
#include <memory>

#include "engine/core/tensor.h"

// Asynchronous copies between host and device. On the CPU they are plain copies.
namespace pursuit {

// A CUDA event.
class Event {
 public:
  explicit Event(int device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(void* stream);
  void block(void* stream) const;  // later work on `stream` waits for it (cudaStreamWaitEvent)
  void wait() const;               // the host waits; returns at once if nothing was recorded
  bool done() const;               // whether wait() would return at once; callable from any thread

 private:
  void* handle_;
};

// Copies one input of every step into the same device tensor: first to pinned memory, then to the device on a
// separate stream while the device computes the previous batch, and finally into the tensor, ahead of the
// work launched next.
class Upload {
 public:
  Upload(const Shape& shape, DType dtype, Device device);
  ~Upload();
  const Tensor& tensor() const { return tensor_; }
  void send(const void* values);  // tensor().numel() values; may be changed on return

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

// Copies one f32 to the host: start() now, wait() later.
class Readback {
 public:
  explicit Readback(Device device);
  void start(const Tensor& x);
  float wait() const;

 private:
  Tensor host_;
  std::unique_ptr<Event> arrived_;  // null on a CPU
};

}  // namespace pursuit
