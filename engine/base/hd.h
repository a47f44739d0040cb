#pragma once

// HD marks functions that run on the host and, when compiled by nvcc, on the device too. PURSUIT_GPU says
// that this build has GPU kernels: nvcc compiles them, or they run on the simulated GPU of cuda/simulated.
#ifdef __CUDACC__
#define HD __host__ __device__
#else
#define HD
#endif
#if defined(__CUDACC__) || defined(PURSUIT_SIMULATED)
#define PURSUIT_GPU 1
#endif
