#include <vector>

#include "cuda/runtime.h"
#include "engine/ops.h"
#include "tests/differences.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

// y, and the gradients of x, w1, b1, w2 and b2 for a given gradient of y.
std::vector<Tensor> results(const std::vector<Tensor>& in, const Tensor& gy, Activation f) {
  std::vector<Tensor> leaves, all;
  for (const Tensor& t : in) leaves.push_back(t.detach().requires_grad());
  const Tensor y = mlp(leaves[0], leaves[1], leaves[2], leaves[3], leaves[4], {}, f);
  y.backward(gy);
  all.push_back(y.detach());
  for (const Tensor& t : leaves) all.push_back(t.grad());
  return all;
}

// The largest difference, relative to the largest number of `want`.
double distance(const Tensor& got, const Tensor& want) {
  return largest_difference(got, want) / largest_magnitude(want);
}

}  // namespace

// Operator samples have few rows. A GPU makes an MLP of many in one kernel each way, in which every
// multiprocessor takes several tiles of 128 rows.
GPU_TEST_CASE("mlp on the GPU: more tiles of rows than multiprocessors, and too few for one each") {
  const bool simulated = cuda::describe(0).find("simulated") != std::string::npos;
  const int64_t most = simulated ? 4 * 128 + 77 : 160 * 128 + 77;
  for (const int64_t rows : {most, int64_t(77)})
    for (const Activation f : {Activation::gelu, Activation::relu}) {
      CAPTURE(rows);
      std::vector<Tensor> in, wide;
      int draw = 0;
      for (const Shape& shape : {Shape{rows, 8}, Shape{40, 8}, Shape{40}, Shape{24, 40}, Shape{24}})
        in.push_back(uniform(shape, -1, 1, 1, uint64_t(draw++)).to(DType::bf16));
      const Tensor gy = uniform({rows, 24}, -1, 1, 1, uint64_t(draw)).to(DType::bf16);
      for (const Tensor& t : in) wide.push_back(t.to(DType::f64));
      const std::vector<Tensor> want = results(wide, gy.to(DType::f64), f);
      for (Tensor& t : in) t = t.to(cuda_device());
      const std::vector<Tensor> got = results(in, gy.to(cuda_device()), f);
      for (size_t i = 0; i < want.size(); ++i) {
        CAPTURE(i);
        CHECK(distance(got[i], want[i]) < 0.01);  // bf16 has 8 bits
      }
      NoGrad off;
      const Tensor y = mlp(in[0], in[1], in[2], in[3], in[4], {}, f);  // keeps no hidden numbers
      CHECK(y.to(cpu).to_vector() == got[0].to(cpu).to_vector());
    }
}
