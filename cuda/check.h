#pragma once
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cusolver_common.h>

#include <string>

#include "engine/base/error.h"

// Checks a call of the CUDA runtime, cuBLASLt or cuSOLVER:
//   CUDA_CHECK(cudaStreamSynchronize(s));
namespace pursuit::cuda {

// "; on NVIDIA H100, 512 of 81000 MiB free", appended to errors.
std::string device_state();

inline std::string text_of(cudaError_t e) {
  const bool by_a_kernel = e == cudaErrorIllegalAddress || e == cudaErrorMisalignedAddress ||
                           e == cudaErrorLaunchFailure || e == cudaErrorIllegalInstruction ||
                           e == cudaErrorAssert;
  return std::string(cudaGetErrorName(e)) + ", " + cudaGetErrorString(e) +
         (by_a_kernel ? ", by an earlier kernel: CUDA_LAUNCH_BLOCKING=1 shows which" : "");
}
inline std::string text_of(cublasStatus_t s) {
  return std::string(cublasLtGetStatusName(s)) + ", " + cublasLtGetStatusString(s);
}
inline std::string text_of(cusolverStatus_t s) { return "cusolverStatus_t " + std::to_string(int(s)); }

template <class Status> void check(Status s, const char* expression, const char* file, int line) {
  if (s == Status{}) return;  // both define success as 0
  fail("cuda", std::string(expression) + " at " + file + ":" + std::to_string(line) + ": " + text_of(s) +
                   device_state());
}

}  // namespace pursuit::cuda

#define CUDA_CHECK(expression) ::pursuit::cuda::check((expression), #expression, __FILE__, __LINE__)
