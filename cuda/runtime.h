#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

// The interface between the engine and the CUDA runtime: plain functions without CUDA types. A build without
// CUDA links cuda/none.cpp, where available() is false and why_not() says so; nothing else is called then.
namespace pursuit::cuda {

bool available();       // built with CUDA, and there is a usable GPU
std::string why_not();  // one line, empty when available
int device_count();
std::string describe(int device);  // name, compute capability, memory

void* allocate(int device, size_t bytes);  // null when out of memory
void release(int device, void* p) noexcept;
// The same from the driver's pool, ordered on the device's stream (cudaMallocAsync).
void* allocate_async(int device, size_t bytes);
void release_async(int device, void* p) noexcept;
void trim_async(int device);  // returns that pool's cached memory to the system
void memory_info(int device, size_t& free, size_t& total);

// Page-locked host memory, which GPUs copy from and to asynchronously; null when out of memory.
void* allocate_pinned(size_t bytes);
void release_pinned(void* p) noexcept;

// Ordered on the device's stream; returns when the host may reuse `from`.
void copy_to_host(void* to, const void* from, int device, size_t bytes);
void copy_to_device(void* to, const void* from, int device, size_t bytes);
void synchronize(int device);

// Streams and events are handles (cudaStream_t, cudaEvent_t). A device has one stream on
// which all work runs, its current one, plus one for copies and one for communication between
// ranks.
int current_device();  // of this thread
void* current_stream();
void* stream(int device);
void* copy_stream(int device);
void* rank_stream(int device);
void* create_event(int device);
void destroy_event(void* event) noexcept;
void record_event(void* event, void* stream);
void wait_for_event(void* stream, void* event);  // later work on `stream` waits (cudaStreamWaitEvent)
void synchronize_event(void* event);             // the host waits
bool event_done(void* event);                    // whether it has been reached; callable from any thread

// Nodes of a capture, of more than 0 bytes: a capture may refuse an empty one.
namespace not_empty {
void copy_on_device(void* to, const void* from, int device, size_t bytes);
void fill_zero(void* to, int device, size_t bytes);
void start_copy_to_host(void* to, const void* from, size_t bytes, void* stream);
void start_copy_to_device(void* to, const void* from, size_t bytes, void* stream);
}  // namespace not_empty

// Ordered on the device's stream.
inline void copy_on_device(void* to, const void* from, int device, size_t bytes) {
  if (bytes > 0) not_empty::copy_on_device(to, from, device, bytes);
}
inline void fill_zero(void* to, int device, size_t bytes) {
  if (bytes > 0) not_empty::fill_zero(to, device, bytes);
}
// Asynchronous; host memory must be pinned and not be changed until the stream has completed the copy.
inline void start_copy_to_host(void* to, const void* from, size_t bytes, void* stream) {
  if (bytes > 0) not_empty::start_copy_to_host(to, from, bytes, stream);
}
inline void start_copy_to_device(void* to, const void* from, size_t bytes, void* stream) {
  if (bytes > 0) not_empty::start_copy_to_device(to, from, bytes, stream);
}

// Captures a graph: work launched on the device's stream between begin and end does not run but is recorded,
// and launch_graph replays it on that stream, with the same arguments. Work on another stream is included
// once that stream waits for an event of the first; in the end the first must wait for it. Nothing may
// synchronise with the GPU meanwhile.
void begin_capture(int device);
bool capturing(int device);
void* end_capture(int device);
void cancel_capture(int device) noexcept;
void launch_graph(void* graph, int device);
void destroy_graph(void* graph) noexcept;

}  // namespace pursuit::cuda
