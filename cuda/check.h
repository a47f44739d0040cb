#pragma once
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <string>

#include "engine/error.h"

namespace pursuit::cuda {

inline void check(cudaError_t e, const char* expression, const char* file, int line) {
  if (e == cudaSuccess) return;
  fail("cuda",
       std::string(expression) + " at " + file + ":" + std::to_string(line) + ": " + cudaGetErrorString(e));
}

inline void check(cublasStatus_t s, const char* expression, const char* file, int line) {
  if (s == CUBLAS_STATUS_SUCCESS) return;
  fail("cublas", std::string(expression) + " at " + file + ":" + std::to_string(line) + ": " +
                     cublasGetStatusString(s));
}

}  // namespace pursuit::cuda

#define CUDA_CHECK(expression) ::pursuit::cuda::check((expression), #expression, __FILE__, __LINE__)
#define CUBLAS_CHECK(expression) ::pursuit::cuda::check((expression), #expression, __FILE__, __LINE__)
