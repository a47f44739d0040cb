#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <mutex>

#include "cuda/check.h"
#include "cuda/runtime.h"

namespace pursuit::cuda {

namespace {

constexpr size_t most_devices = 16;

// Created on first use and never destroyed. Non-blocking: they do not synchronise with the default stream,
// which cannot be captured.
struct Streams {
  std::once_flag once;
  cudaStream_t work, copies, ranks;
};

Streams& streams(int device) {
  static std::array<Streams, most_devices> all;
  Streams& s = all.at(size_t(device));
  std::call_once(s.once, [&] {
    CUDA_CHECK(cudaSetDevice(device));
    CUDA_CHECK(cudaStreamCreateWithFlags(&s.work, cudaStreamNonBlocking));
    CUDA_CHECK(cudaStreamCreateWithFlags(&s.copies, cudaStreamNonBlocking));
    // Collectives have priority, since other GPUs wait for them and they need only a few multiprocessors.
    int least = 0, greatest = 0;
    CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CUDA_CHECK(cudaStreamCreateWithPriority(&s.ranks, cudaStreamNonBlocking, greatest));
  });
  return s;
}

cudaStream_t work_stream(int device) {
  CUDA_CHECK(cudaSetDevice(device));
  return streams(device).work;
}

cudaStream_t as_stream(void* s) { return static_cast<cudaStream_t>(s); }
cudaEvent_t as_event(void* e) { return static_cast<cudaEvent_t>(e); }

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

void* or_null(cudaError_t e, void* p) {
  if (e == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // or the next launch would report it
    return nullptr;
  }
  CUDA_CHECK(e);
  return p;
}

// The device's default pool, set to keep freed memory.
cudaMemPool_t driver_pool(int device) {
  cudaMemPool_t pool;
  CUDA_CHECK(cudaDeviceGetDefaultMemPool(&pool, device));
  static std::array<std::once_flag, most_devices> once;
  std::call_once(once.at(size_t(device)), [&] {
    uint64_t all = UINT64_MAX;
    CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
  });
  return pool;
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
  return or_null(e, p);
}

void release(int, void* p) noexcept { cudaFree(p); }

void* allocate_async(int device, size_t bytes) {
  const cudaStream_t on = work_stream(device);
  void* p = nullptr;
  const cudaError_t e = cudaMallocFromPoolAsync(&p, bytes, driver_pool(device), on);
  return or_null(e, p);
}

void release_async(int device, void* p) noexcept { cudaFreeAsync(p, streams(device).work); }

void trim_async(int device) { CUDA_CHECK(cudaMemPoolTrimTo(driver_pool(device), 0)); }

void memory_info(int device, size_t& free, size_t& total) {
  CUDA_CHECK(cudaSetDevice(device));
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
}

void* allocate_pinned(size_t bytes) {
  void* p = nullptr;
  const cudaError_t e = cudaHostAlloc(&p, bytes, cudaHostAllocPortable);
  return or_null(e, p);
}

void release_pinned(void* p) noexcept { cudaFreeHost(p); }

void copy_to_host(void* to, const void* from, int device, size_t bytes) {
  const cudaStream_t on = work_stream(device);
  CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, on));
  CUDA_CHECK(cudaStreamSynchronize(on));
}

void copy_to_device(void* to, const void* from, int device, size_t bytes) {
  const cudaStream_t on = work_stream(device);
  CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, on));
  CUDA_CHECK(cudaStreamSynchronize(on));
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
void* current_stream() { return streams(current_device()).work; }
void* stream(int device) { return streams(device).work; }
void* copy_stream(int device) { return streams(device).copies; }
void* rank_stream(int device) { return streams(device).ranks; }

void* create_event(int device) {
  CUDA_CHECK(cudaSetDevice(device));
  cudaEvent_t e;
  CUDA_CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  return e;
}
void destroy_event(void* event) noexcept { cudaEventDestroy(as_event(event)); }
void record_event(void* event, void* s) { CUDA_CHECK(cudaEventRecord(as_event(event), as_stream(s))); }
void wait_for_event(void* s, void* event) {
  CUDA_CHECK(cudaStreamWaitEvent(as_stream(s), as_event(event), 0));
}
void synchronize_event(void* event) { CUDA_CHECK(cudaEventSynchronize(as_event(event))); }
bool event_done(void* event) {
  const cudaError_t e = cudaEventQuery(as_event(event));
  if (e == cudaErrorNotReady) cudaGetLastError();
  if (e != cudaErrorNotReady) CUDA_CHECK(e);
  return e == cudaSuccess;
}

namespace not_empty {

void copy_on_device(void* to, const void* from, int device, size_t bytes) {
  CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, work_stream(device)));
}

void fill_zero(void* to, int device, size_t bytes) {
  CUDA_CHECK(cudaMemsetAsync(to, 0, bytes, work_stream(device)));
}

void start_copy_to_host(void* to, const void* from, size_t bytes, void* s) {
  CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, as_stream(s)));
}
void start_copy_to_device(void* to, const void* from, size_t bytes, void* s) {
  CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, as_stream(s)));
}

}  // namespace not_empty

// Relaxed: the memory pool may take more memory from the system meanwhile.
void begin_capture(int device) {
  CUDA_CHECK(cudaStreamBeginCapture(work_stream(device), cudaStreamCaptureModeRelaxed));
}

bool capturing(int device) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CUDA_CHECK(cudaStreamIsCapturing(work_stream(device), &status));
  return status != cudaStreamCaptureStatusNone;
}

void* end_capture(int device) {
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamEndCapture(work_stream(device), &graph));
  cudaGraphExec_t runnable = nullptr;
  const cudaError_t e = cudaGraphInstantiate(&runnable, graph, 0);
  cudaGraphDestroy(graph);
  CUDA_CHECK(e);
  return runnable;
}

void cancel_capture(int device) noexcept {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(streams(device).work, &graph);
  if (graph) cudaGraphDestroy(graph);
  cudaGetLastError();
}

void launch_graph(void* graph, int device) {
  CUDA_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), work_stream(device)));
}

void destroy_graph(void* graph) noexcept { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }

}  // namespace pursuit::cuda
