#include <cuda_runtime.h>

#include <cstdio>

#include "cuda/check.h"
#include "cuda/runtime.h"

namespace pursuit::cuda {

namespace {

thread_local cudaStream_t stream = nullptr;

std::string version(int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); }

std::string find_reason() {
  int driver = 0, runtime = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return "no NVIDIA driver is installed";
  const cudaError_t e = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (e == cudaErrorInsufficientDriver) {
    cudaRuntimeGetVersion(&runtime);
    return "the NVIDIA driver knows CUDA up to " + version(driver) + ", this build needs " +
           version(runtime) + ": update the driver";
  }
  if (e == cudaErrorNoDevice || (e == cudaSuccess && count == 0)) return "no NVIDIA GPU found";
  if (e != cudaSuccess) return "the NVIDIA driver does not work: " + text_of(e);
  cudaDeviceProp p;
  if (cudaGetDeviceProperties(&p, 0) != cudaSuccess) return "the GPU does not answer";
  if (p.major < 8)
    return std::string(p.name) + " is too old: compute capability " + std::to_string(p.major) + "." +
           std::to_string(p.minor) + ", 8.0 or newer is needed";
  return "";
}

const std::string& reason() {
  static const std::string r = find_reason();
  return r;
}

}  // namespace

bool available() { return reason().empty(); }
std::string why_not() { return reason(); }

int device_count() {
  int count = 0;
  return available() && cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string describe(int device) {
  cudaDeviceProp p;
  CUDA_CHECK(cudaGetDeviceProperties(&p, device));
  char text[320];
  std::snprintf(text, sizeof text, "%s, sm_%d%d, %.0f GiB", p.name, p.major, p.minor,
                double(p.totalGlobalMem) / (1 << 30));
  return text;
}

std::string device_state() {
  int device = 0;
  cudaDeviceProp p;
  size_t free = 0, total = 0;
  if (cudaGetDevice(&device) != cudaSuccess || cudaGetDeviceProperties(&p, device) != cudaSuccess) return "";
  std::string text = std::string("; on ") + p.name;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess)
    text += ", " + std::to_string(free >> 20) + " of " + std::to_string(total >> 20) + " MiB free";
  return text;
}

void* allocate(int device, size_t bytes) {
  CUDA_CHECK(cudaSetDevice(device));
  void* p = nullptr;
  const cudaError_t e = cudaMalloc(&p, bytes);
  if (e == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the error is sticky until read, and would be blamed on the next launch
    return nullptr;
  }
  CUDA_CHECK(e);
  return p;
}

void release(int, void* p) noexcept { cudaFree(p); }

void memory_info(int device, size_t& free, size_t& total) {
  CUDA_CHECK(cudaSetDevice(device));
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
}

void copy_to_host(void* to, const void* from, int device, size_t bytes) {
  CUDA_CHECK(cudaSetDevice(device));
  CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
}

void copy_to_device(void* to, const void* from, int device, size_t bytes) {
  CUDA_CHECK(cudaSetDevice(device));
  CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
}

void copy_on_device(void* to, const void* from, int device, size_t bytes) {
  CUDA_CHECK(cudaSetDevice(device));
  CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

void fill_zero(void* to, int device, size_t bytes) {
  CUDA_CHECK(cudaSetDevice(device));
  CUDA_CHECK(cudaMemsetAsync(to, 0, bytes, stream));
}

void synchronize(int device) {
  CUDA_CHECK(cudaSetDevice(device));
  CUDA_CHECK(cudaDeviceSynchronize());
}

int current_device() {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  return device;
}
void* current_stream() { return stream; }
void set_current_stream(void* s) { stream = static_cast<cudaStream_t>(s); }

}  // namespace pursuit::cuda
