#include "engine/step/transfer.h"

#include <cstring>

#include "cuda/runtime.h"
#include "engine/cpu/parallel.h"
#include "engine/operator/copy.h"

namespace pursuit {

namespace {

Tensor pinned_tensor(const Shape& shape, DType dtype) {
  return Tensor(allocate_pinned(shape.numel() * size_of(dtype)), shape, contiguous_strides(shape), 0, dtype,
                cpu);
}

void copy_bytes(void* to, const void* from, int64_t bytes) {
  parallel_for(bytes, 1 << 20, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, size_t(end - begin));
  });
}

}  // namespace

Event::Event(int device) : handle_(cuda::create_event(device)) {}
Event::~Event() { cuda::destroy_event(handle_); }
void Event::record(void* stream) { cuda::record_event(handle_, stream); }
void Event::block(void* stream) const { cuda::wait_for_event(stream, handle_); }
void Event::wait() const { cuda::synchronize_event(handle_); }
bool Event::done() const { return cuda::event_done(handle_); }

Upload::Upload(const Shape& shape, DType dtype, Device device) {
  MemoryTag tag("batches");
  tensor_ = empty(shape, dtype, device);
  if (!device.is_cuda()) return;
  for (auto& slot : slots_) {
    slot = std::make_unique<Slot>(device.index);
    slot->pinned = pinned_tensor(shape, dtype);
    slot->staged = empty(shape, dtype, device);
    slot->used.record(cuda::stream(device.index));  // earlier users of the memory come first
  }
}

Upload::~Upload() {
  for (auto& slot : slots_)
    if (slot) try {
        slot->arrived.wait();
      } catch (const Error&) {
        // After an error on the GPU, which the caller is told of, nothing arrives.
      }
}

void Upload::send(const void* values) {
  tensor_.bump_version("an upload");
  if (!tensor_.device().is_cuda()) return copy_bytes(tensor_.raw(), values, tensor_.bytes());
  const int device = tensor_.device().index;
  void *work = cuda::stream(device), *copies = cuda::copy_stream(device);
  Slot& slot = *slots_[next_];
  next_ = 1 - next_;
  slot.arrived.wait();
  copy_bytes(slot.pinned.raw(), values, slot.pinned.bytes());
  slot.used.block(copies);
  cuda::start_copy_to_device(slot.staged.raw(), slot.pinned.raw(), size_t(slot.pinned.bytes()), copies);
  slot.arrived.record(copies);
  slot.arrived.block(work);
  copy_strided(tensor_, slot.staged);
  slot.used.record(work);
}

Readback::Readback(Device device)
    : host_(device.is_cuda() ? pinned_tensor({}, DType::f32) : empty({})),
      arrived_(device.is_cuda() ? std::make_unique<Event>(device.index) : nullptr) {}

void Readback::start(const Tensor& x) {
  if (!arrived_) return copy_values(host_, x.reshape({}));
  void* work = cuda::stream(x.device().index);
  cuda::start_copy_to_host(host_.raw(), x.data<float>(), sizeof(float), work);
  arrived_->record(work);
}

float Readback::wait() const {
  if (arrived_) arrived_->wait();
  return *host_.data<float>();
}

}  // namespace pursuit
