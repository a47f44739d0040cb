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
void memory_info(int device, size_t& free, size_t& total);

// Ordered on the device's stream; returns when the host may reuse `from`.
void copy_to_host(void* to, const void* from, int device, size_t bytes);
void copy_to_device(void* to, const void* from, int device, size_t bytes);
void copy_on_device(void* to, const void* from, int device, size_t bytes);
void fill_zero(void* to, int device, size_t bytes);
void synchronize(int device);

// What operators of this thread run on: the device, and the stream (a cudaStream_t), the default one until
// set.
int current_device();
void* current_stream();
void set_current_stream(void* stream);

}  // namespace pursuit::cuda
