#pragma once

// HD marks functions that run on the host and, compiled by nvcc, on the device. PURSUIT_GPU is defined when
// the build has GPU kernels, compiled by nvcc or for the simulated GPU of cuda/simulated.
#ifdef __CUDACC__
#define HD __host__ __device__
#else
#define HD
#endif
#if defined(__CUDACC__) || defined(PURSUIT_SIMULATED)
#define PURSUIT_GPU 1
#endif
