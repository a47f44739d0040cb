#pragma once

namespace simt {

// How tensor cores add: as IEEE arithmetic does, in f64, or as the hardware does (Xie et al., "MMA-Sim:
// Bit-Accurate Reference Model of Tensor Cores and Matrix Cores", arXiv:2511.10909). Those truncate every
// term toward 0 at 2^-bits of the greatest power of 2, a product's being that of its factors, and the sum to
// f32.
struct TensorCores {
  bool truncate = false;
  int bits = 0;   // below the greatest power of 2
  int steps = 0;  // in which an instruction adds its depth
};
constexpr TensorCores ampere{true, 24, 2}, hopper{true, 25, 1};

// Those that SIMT_TENSOR_CORES names: nearest (the default), ampere or hopper.
const TensorCores& tensor_cores();

// d + a[0] b[0] + ... + a[n - 1] b[n - 1], in one step.
float truncated_sum(const TensorCores& cores, float d, const float* a, const float* b, int n);

}  // namespace simt
