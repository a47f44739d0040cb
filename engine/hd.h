#pragma once

// HD marks functions that run on the host and, when compiled by nvcc, on the device too.
#ifdef __CUDACC__
#define HD __host__ __device__
#else
#define HD
#endif
