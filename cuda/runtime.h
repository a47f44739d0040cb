#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

// The narrow door between the engine and the CUDA runtime: plain functions, no CUDA types. A build without
// CUDA links cuda/none.cpp, where available() is false and why_not() says so; nothing else is called then.
namespace pursuit::cuda {

bool available();       // built with CUDA and a usable GPU is there
std::string why_not();  // one line, empty when available
int device_count();
std::string describe(int device);  // name, compute capability, memory

void* allocate(int device, size_t bytes);  // null when out of memory
void release(int device, void* p) noexcept;
// The same from the driver's own pool, ordered on the device's stream (cudaMallocAsync).
void* allocate_async(int device, size_t bytes);
void release_async(int device, void* p) noexcept;
void trim_async(int device);  // gives what that pool keeps back to the system
void memory_info(int device, size_t& free, size_t& total);

// Page-locked memory of the host, which GPUs copy from and to by themselves; null when there is no more.
void* allocate_pinned(size_t bytes);
void release_pinned(void* p) noexcept;

// Ordered on the device's stream; returns when the host may reuse `from`.
void copy_to_host(void* to, const void* from, int device, size_t bytes);
void copy_to_device(void* to, const void* from, int device, size_t bytes);
void copy_on_device(void* to, const void* from, int device, size_t bytes);
void fill_zero(void* to, int device, size_t bytes);
void synchronize(int device);

// Streams and events are handles (cudaStream_t, cudaEvent_t). A device has one stream on which everything
// runs, the current one for the current device, and beside it one for copies and one for what travels between
// ranks.
int current_device();  // of this thread
void* current_stream();
void* stream(int device);
void* copy_stream(int device);
void* rank_stream(int device);
void* create_event(int device);
void destroy_event(void* event) noexcept;
void record_event(void* event, void* stream);
void wait_for_event(void* stream, void* event);  // `stream` does, with what it is given from now on
void synchronize_event(void* event);             // the host does
bool event_done(void* event);                    // whether it would not have to wait; from any thread
// Return at once; the host's memory is pinned and left alone until the stream has come this far.
void start_copy_to_host(void* to, const void* from, size_t bytes, void* stream);
void start_copy_to_device(void* to, const void* from, size_t bytes, void* stream);

// What is given to the device's stream between begin and end is not run but becomes a graph, which
// launch_graph runs on that stream as often as wanted, with the same arguments. So does what another stream
// is given after it has waited for an event of the first one; in the end that one must wait for it. Nothing
// may wait for the GPU in between.
void begin_capture(int device);
bool capturing(int device);
void* end_capture(int device);
void cancel_capture(int device) noexcept;
void launch_graph(void* graph, int device);
void destroy_graph(void* graph) noexcept;

}  // namespace pursuit::cuda
