#pragma once

namespace simt {

// d + products[0] + ... + products[n - 1] as tensor cores add them: each term is cut toward 0 at 2^-23 of the
// power of 2 of the largest, and the sum is cut to f32. Products are exact (Fasi et al., "Numerical behavior
// of NVIDIA tensor cores", PeerJ Computer Science 2021). No bits beyond these 24 is what V100 has; newer GPUs
// keep one or more, and cut off less.
float truncated_sum(float d, const double* products, int n);

}  // namespace simt
