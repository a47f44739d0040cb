#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdio>

#include "cuda/check.h"
#include "cuda/runtime.h"

namespace pursuit::cuda {

namespace {

thread_local cudaStream_t stream = nullptr;

std::string find_reason() {
  int count = 0;
  const cudaError_t e = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (e == cudaErrorInsufficientDriver) return "the NVIDIA driver is older than this build's CUDA runtime";
  if (e != cudaSuccess || count == 0) return "no NVIDIA GPU found";
  cudaDeviceProp p;
  if (cudaGetDeviceProperties(&p, 0) != cudaSuccess) return "the GPU does not answer";
  if (p.major < 8) return std::string(p.name) + " is too old: compute capability 8.0 or newer is needed";
  return "";
}

const std::string& reason() {
  static const std::string r = find_reason();
  return r;
}

cublasHandle_t handle(int device) {
  static thread_local std::array<cublasHandle_t, 16> handles{};
  cublasHandle_t& h = handles.at(size_t(device));
  if (!h) CUBLAS_CHECK(cublasCreate(&h));
  CUBLAS_CHECK(cublasSetStream(h, stream));
  return h;
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

void* current_stream() { return stream; }
void set_current_stream(void* s) { stream = static_cast<cudaStream_t>(s); }

void gemm(Gemm type, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const void* a,
          int64_t lda, int64_t stride_a, const void* b, int64_t ldb, int64_t stride_b, float beta, void* c,
          int64_t ldc, int64_t stride_c, int64_t batch) {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  const cudaDataType_t t = type == Gemm::f32 ? CUDA_R_32F : CUDA_R_16BF;
  // cuBLAS is column-major: the row-major product is that of the transposes in the other order.
  CUBLAS_CHECK(cublasGemmStridedBatchedEx(
      handle(device), tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, int(n), int(m), int(k),
      &alpha, b, t, int(ldb), stride_b, a, t, int(lda), stride_a, &beta, c, t, int(ldc), stride_c, int(batch),
      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

}  // namespace pursuit::cuda
