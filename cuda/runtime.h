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
// The stream that operators of this thread run on (a cudaStream_t), the default one until set.
void* current_stream();
void set_current_stream(void* stream);

// Row-major C = alpha op(A) op(B) + beta C for `batch` matrices, by cuBLAS; element types as in DType.
enum class Gemm { f32, bf16 };
void gemm(Gemm type, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const void* a,
          int64_t lda, int64_t stride_a, const void* b, int64_t ldb, int64_t stride_b, float beta, void* c,
          int64_t ldc, int64_t stride_c, int64_t batch);

}  // namespace pursuit::cuda
