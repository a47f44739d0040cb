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
  double mu = 0;         // 0: n1 n2 / (4 sum |M|), for every matrix its own
  double tolerance = 0;  // 0: 1e-7 in f64, 1e-5 in f32, whose rounding ends at about 1e-6
  int max_iterations = 1000;
};

struct PcpResult {
  Tensor low_rank, sparse, dual;               // shaped as the input; dual is Y
  std::vector<int> iterations;                 // of each matrix
  std::vector<std::vector<double>> residuals;  // of each matrix, |M - L - S|_F / |M|_F after each iteration
  bool converged = false;                      // all of them
};

// m [n1, n2] or [B, n1, n2], f32 or f64; off the tape. Every matrix stops by itself, so a batch gives what
// its matrices give alone. The CPU iterates in f64, a GPU in f32. Throws where an entry is NaN or infinite.
PcpResult principal_component_pursuit(const Tensor& m, const PcpOptions& options = {});

}  // namespace pursuit
