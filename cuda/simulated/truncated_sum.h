#pragma once

namespace simt {

// d + products[0] + ... + products[n - 1] as tensor cores add: each term is truncated toward 0 at 2^-23 of
// the largest term's power of 2, and the sum is truncated to f32. Products are exact (Fasi et al., "Numerical
// behavior of NVIDIA tensor cores", PeerJ Computer Science 2021). V100 has no bits beyond these 24; newer
// GPUs have one or more and truncate less.
float truncated_sum(float d, const double* products, int n);

}  // namespace simt
