#pragma once
#include <vector>

#include "engine/core/tensor.h"

namespace pursuit {

// Principal component pursuit (Candes, Li, Ma & Wright 2011, algorithm 1): splits every matrix M [n1, n2]
// into a low-rank L and a sparse S by minimising |L|_* + lambda |S|_1 subject to L + S = M with
//   L = D_{1/mu}(M - S + Y/mu),  S = soft_threshold(M - L + Y/mu, lambda/mu),  Y = Y + mu (M - L - S)
// from S = Y = 0 until |M - L - S|_F <= tolerance |M|_F. D is singular value thresholding.
struct PcpOptions {
  double lambda = 0;     // 0: 1 / sqrt(max(n1, n2))
  double mu = 0;         // 0: n1 n2 / (4 sum |M|), per matrix
  double tolerance = 0;  // 0: 1e-7 in f64; 1e-5 in f32, where rounding limits it to about 1e-6
  int max_iterations = 1000;
};

struct PcpResult {
  Tensor low_rank, sparse, dual;               // of the input's shape; dual is Y
  std::vector<int> iterations;                 // per matrix
  std::vector<std::vector<double>> residuals;  // per matrix: |M - L - S|_F / |M|_F after each iteration
  bool converged = false;                      // all of them
};

// m [n1, n2] or [B, n1, n2], f32 or f64. Each matrix stops by itself, so a batch gives the same results as
// its matrices alone. The CPU iterates in f64, a GPU in f32. No autograd. Throws for NaN or infinity.
PcpResult principal_component_pursuit(const Tensor& m, const PcpOptions& options = {});

}  // namespace pursuit
