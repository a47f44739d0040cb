#pragma once
#include "cuda/laboratory/meter.h"
#include "engine/operator/operator.h"

// The laboratory's operators, `version` being 1 to 4, or 5, the solution of an exercise. They have no
// gradient. With `counts` the call is counted, which takes the simulated GPU for what runs on a GPU.
namespace pursuit::laboratory {

constexpr int versions = 4, solution = 5;

// softmax(x) over the last dimension of x, f32. On a CPU it is the engine's, which it is held against; the
// same goes for matmul, of a [m, k] and b [k, n].
Tensor softmax(int version, const Tensor& x, Counts* counts = nullptr);
Tensor matmul(int version, const Tensor& a, const Tensor& b, Counts* counts = nullptr);

// a b for a [m, k] and b [k, n] on the CPU in one thread, f32 or f64, with the instructions that the engine's
// row kernels use (PURSUIT_ISA).
Tensor cpu_matmul(int version, const Tensor& a, const Tensor& b, Counts* counts = nullptr);

// Beginning of an operator: a name by version, samples whose inputs take no gradient.
struct WithoutGradient {
  Grads backward(const Tensor&, Needs) {
    fail("laboratory", "got an input that wants a gradient, these operators have none; call the engine's");
  }
};

}  // namespace pursuit::laboratory
