#include "cuda/add_norm.cuh"

#include "engine/operator/operator.h"
#include "engine/operator/residual.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

// Passed between the two operators below: the norm in the forward pass, its gradient in the backward pass.
struct Handed {
  Tensor norm, gradient;
};

// residual + drop_path(branch), and its norm, on a GPU. Saves the sum and the norm's statistics; backward
// draws the same mask again. tests/cuda/simt_norm_test.cpp compares it with drop_path and layer_norm.
struct AddNorm {
  static constexpr const char* name = "add_norm";
  double p = 0, eps = 1e-6;
  uint64_t seed = 0, stream = 0;
  std::shared_ptr<Handed> handed = {};
  Tensor sum = {}, weight = {}, mean = {}, rstd = {}, counter = {};
  DType dtype = DType::f32;  // of branch and norm

#ifdef PURSUIT_GPU
  cuda::DropFactor factor() const {
    const int64_t samples = sum.size(0);
    return {seed,
            stream,
            counter.defined() ? counter.data<int64_t>() : nullptr,
            samples,
            mean.numel() / std::max<int64_t>(1, samples),
            float(1 - p),
            p < 1 ? float(1 / (1 - p)) : 0.0f};
  }
  template <class T, class Y> static void kernel(Cuda, const AddNorm& op, const T* residual, const Y* branch,
                                                 const float* bias, Y* norm) {
    cuda::add_norm(residual, branch, op.factor(), op.weight.data<float>(), bias, op.mean.numel(),
                   op.sum.size(-1), float(op.eps), op.sum.data<T>(), norm, op.mean.data<float>(),
                   op.rstd.data<float>());
  }
  template <class T, class Y>
  static void gradient(Cuda, const AddNorm& op, const T* so_far, const Y* gy, T* gx, Y* branch, float* gp) {
    cuda::layer_norm_gradient(static_cast<const T*>(op.sum.data<T>()), gy, op.weight.data<float>(),
                              op.mean.data<float>(), op.rstd.data<float>(), op.mean.numel(), op.sum.size(-1),
                              so_far, gx, branch, op.factor(), gp);
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& number, const Tensor& residual, const Tensor& w,
                 const Tensor& b) {
    if (number.defined()) counter = number.to(DType::i64);
    dtype = in.dtype();
    weight = w.contiguous();
    const Tensor branch = in.contiguous(), plus = residual.contiguous(), bias = b.contiguous();
    const int64_t rows = plus.size(-1) ? plus.numel() / plus.size(-1) : 0;
    sum = empty_like(plus);
    mean = empty({rows}, DType::f32, plus.device());
    rstd = empty({rows}, DType::f32, plus.device());
    handed->norm = empty(plus.shape(), dtype, plus.device());
    dispatch(branch, sum, name, [&]<class Dev, class Y, class T>(Dev dev, Type<Y>, Type<T>) {
      launch<AddNorm>(dev, *this, static_cast<const T*>(plus.data<T>()),
                      static_cast<const Y*>(branch.data<Y>()), static_cast<const float*>(bias.data<float>()),
                      handed->norm.data<Y>());
    });
    return sum;
  }
  Grads backward(const Tensor& gy, Needs) {
    Tensor of_norm = std::exchange(handed->gradient, {});
    if (!of_norm.defined()) of_norm = zeros(sum.shape(), dtype, sum.device());
    // In the memory of gy where nobody else uses that.
    const Tensor gx = gy.is_contiguous() && gy.storage().use_count() == 1 ? gy.detach() : empty_like(sum),
                 so_far = gy.contiguous(), branch = empty(sum.shape(), dtype, sum.device()),
                 gp = empty({2, sum.size(-1)}, DType::f32, sum.device());
    dispatch(branch, sum, name, [&]<class Dev, class Y, class T>(Dev dev, Type<Y>, Type<T>) {
      launch_gradient<AddNorm>(dev, *this, static_cast<const T*>(so_far.data<T>()),
                               static_cast<const Y*>(of_norm.data<Y>()), gx.data<T>(), branch.data<Y>(),
                               gp.data<float>());
    });
    return {branch, Tensor(), gx, gp.select(0, 0), gp.select(0, 1)};
  }
  static std::vector<Sample<AddNorm>> samples() {
    return {{{}, {{{3, 5}}, left_out(), {{3, 5}}, {{5}}, {{5}}}}};
  }
};

// The norm that AddNorm made of its sum. Its gradient goes to AddNorm, whose backward runs later: all that is
// computed from the norm is computed from the sum.
struct NormOfSum {
  static constexpr const char* name = "add_norm";
  std::shared_ptr<Handed> handed = {};
  DType dtype = DType::f32;  // of the sum
  Tensor so_far = {};

  Tensor forward(const Tensor&) { return std::exchange(handed->norm, {}); }
  Grads backward(const Tensor& gy, Needs) {
    handed->gradient = gy.contiguous();
    if (!so_far.defined()) so_far = zeros(gy.shape(), dtype, gy.device());
    return {std::exchange(so_far, {})};
  }
  static std::vector<Sample<NormOfSum>> samples() { return {{{}, {{{3, 5}}}}}; }
};

}  // namespace

SumAndNorm add_norm(const Tensor& branch, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                    double eps, double p, uint64_t seed, uint64_t stream, const Tensor& counter) {
  require_defined("add_norm", {&branch, &residual, &weight, &bias});
  const bool fused = branch.device().is_cuda() && weight.dtype() == DType::f32 && bias.dtype() == DType::f32;
  if (!fused) {
    const Tensor sum = drop_path(branch, p, seed, stream, counter, residual);
    return {sum, layer_norm(sum, weight, bias, eps, branch.dtype())};
  }
  if (!(p >= 0 && p <= 1)) fail("add_norm", "got p " + std::to_string(p) + ", need 0 to 1");
  if (counter.defined() && (counter.shape() != Shape{2} || counter.device() != branch.device()))
    fail("add_norm", "got the counter " + counter.str() + ", need i64 [2] beside " + branch.str());
  if (branch.ndim() < 2 || weight.shape() != Shape{branch.size(-1)} || bias.shape() != weight.shape() ||
      weight.device() != branch.device() || bias.device() != branch.device())
    fail("add_norm", "got branch " + branch.str() + ", weight " + weight.str() + ", bias " + bias.str() +
                         ", need [samples, ..., dim], [dim], [dim] on one device");
  require_residual("add_norm", residual, branch.shape(), branch);
  const auto handed = std::make_shared<Handed>();
  const Tensor sum = apply(AddNorm{.p = p, .eps = eps, .seed = seed, .stream = stream, .handed = handed},
                           branch, counter, residual, weight, bias);
  return {sum, apply(NormOfSum{.handed = handed, .dtype = sum.dtype()}, sum)};
}

}  // namespace pursuit
