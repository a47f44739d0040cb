#pragma once
#include <algorithm>
#include <cmath>

#include "apps/examples/laboratory/meter.h"
#include "engine/operator/operator.h"

// The laboratory's operators. `version` is 1 to 4, or 5 for the solution of an exercise. They have no
// gradient. With `counts` the call is counted; for kernels this needs the simulated GPU.
namespace pursuit::laboratory {

constexpr int versions = 4, solution = 5;

// softmax(x) over the last dimension of x, f32. On a CPU it calls the engine's operator, which is the
// reference; so does matmul, of a [m, k] and b [k, n].
Tensor softmax(int version, const Tensor& x, Counts* counts = nullptr);
Tensor matmul(int version, const Tensor& a, const Tensor& b, Counts* counts = nullptr);

// a b for a [m, k] and b [k, n], in version 5 a b^T for b [n, k], on the CPU in one thread, f32 or f64, with
// the instruction set of the engine's row kernels (PURSUIT_ISA).
Tensor cpu_matmul(int version, const Tensor& a, const Tensor& b, Counts* counts = nullptr);

// The sample tolerance for a sequential sum of so many terms. Each addition has an error of up to half an
// ulp, and the errors add up to about the square root of their number times that; the driver's base tolerance
// is 8 ulp.
inline double one_by_one(int64_t terms) { return std::max(1.0, std::sqrt(double(terms)) / 16); }

// Base of the operators; their samples' inputs are constant().
struct WithoutGradient {
  Grads backward(const Tensor&, Needs) {
    fail("laboratory", "got an input that wants a gradient, these operators have none; call the engine's");
  }
};

}  // namespace pursuit::laboratory
