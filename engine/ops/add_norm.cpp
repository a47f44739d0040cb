#include "engine/ops/add_norm.h"

#include "engine/operator/counter.h"
#include "engine/operator/residual.h"

namespace pursuit {

#ifdef PURSUIT_GPU
cuda::DropFactor AddNorm::factor() const {
  const int64_t samples = sum.size(0);
  return {path.seed,
          path.stream,
          path.counter.defined() ? path.counter.data<int64_t>() : nullptr,
          samples,
          mean.numel() / std::max<int64_t>(1, samples),
          float(1 - path.p),
          path.p < 1 ? float(1 / (1 - path.p)) : 0.0f};
}

template <class T, class Y> void AddNorm::kernel(Cuda, const AddNorm& op, const T* residual, const Y* branch,
                                                 const float* bias, Y* norm) {
  cuda::add_norm(residual, branch, op.factor(), op.weight.data<float>(), bias, op.mean.numel(),
                 op.sum.size(-1), float(op.eps), op.sum.data<T>(), norm, op.mean.data<float>(),
                 op.rstd.data<float>());
}

template <class T, class Y>
void AddNorm::gradient(Cuda, const AddNorm& op, const T* so_far, const Y* gy, T* gx, Y* branch, float* gp) {
  cuda::layer_norm_gradient(static_cast<const T*>(op.sum.data<T>()), gy, op.weight.data<float>(),
                            op.mean.data<float>(), op.rstd.data<float>(), op.mean.numel(), op.sum.size(-1),
                            so_far, gx, branch, op.factor(), gp);
}
#endif

void AddNorm::prepare(const Tensor& number, const Tensor& residual, const Tensor& w, DType of_branch) {
  path.counter = number.defined() ? number.to(DType::i64) : Tensor();
  dtype = of_branch;
  weight = w.contiguous();
  const int64_t rows = residual.size(-1) ? residual.numel() / residual.size(-1) : 0;
  sum = empty_like(residual);
  mean = empty({rows}, DType::f32, residual.device());
  rstd = empty({rows}, DType::f32, residual.device());
  handed->norm = empty(residual.shape(), dtype, residual.device());
}

Tensor AddNorm::forward(const Tensor& in, const Tensor& number, const Tensor& residual, const Tensor& w,
                        const Tensor& b) {
  const Tensor branch = in.contiguous(), plus = residual.contiguous(), bias = b.contiguous();
  prepare(number, plus, w, branch.dtype());
  dispatch(branch, sum, name, [&]<class Dev, class Y, class T>(Dev dev, Type<Y>, Type<T>) {
    launch<AddNorm>(dev, *this, static_cast<const T*>(plus.data<T>()),
                    static_cast<const Y*>(branch.data<Y>()), static_cast<const float*>(bias.data<float>()),
                    handed->norm.data<Y>());
  });
  return sum;
}

Grads AddNorm::backward(const Tensor& gy, Needs) { return gradients(gy, owned(gy)); }

Grads AddNorm::gradients(const Tensor& gy, bool in_place) {
  Tensor of_norm = std::exchange(handed->gradient, {});
  if (!of_norm.defined()) of_norm = zeros(sum.shape(), dtype, sum.device());
  const Tensor gx = in_place ? gy.detach() : empty_like(sum), so_far = gy.contiguous(),
               branch = empty(sum.shape(), dtype, sum.device()),
               gp = empty({2, sum.size(-1)}, DType::f32, sum.device());
  dispatch(branch, sum, name, [&]<class Dev, class Y, class T>(Dev dev, Type<Y>, Type<T>) {
    launch_gradient<AddNorm>(dev, *this, static_cast<const T*>(so_far.data<T>()),
                             static_cast<const Y*>(of_norm.data<Y>()), gx.data<T>(), branch.data<Y>(),
                             gp.data<float>());
  });
  return {branch, Tensor(), gx, gp.select(0, 0), gp.select(0, 1)};
}

namespace {

// The gradient of the norm goes to AddNorm, whose backward runs later: all that is computed from the norm is
// computed from the sum.
struct NormOfSum {
  static constexpr const char* name = "add_norm";
  std::shared_ptr<AddNorm::Handed> handed = {};
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

Tensor norm_of_sum(const Tensor& sum, const std::shared_ptr<AddNorm::Handed>& handed) {
  return apply(NormOfSum{.handed = handed, .dtype = sum.dtype()}, sum);
}

bool fits_add_norm(const Tensor& branch, const NormParameters& norm) {
  return branch.device().is_cuda() && norm.weight.dtype() == DType::f32 && norm.bias.dtype() == DType::f32;
}

void check_add_norm(const char* where, const Tensor& branch, const Tensor& residual,
                    const NormParameters& norm, const DropOptions& path) {
  if (!(path.p >= 0 && path.p <= 1)) fail(where, "got p " + std::to_string(path.p) + ", need 0 to 1");
  require_counter(where, path.counter, branch);
  const Tensor &weight = norm.weight, &bias = norm.bias;
  if (branch.ndim() < 2 || weight.shape() != Shape{branch.size(-1)} || bias.shape() != weight.shape() ||
      weight.device() != branch.device() || bias.device() != branch.device())
    fail(where, "got branch " + branch.str() + ", weight " + weight.str() + ", bias " + bias.str() +
                    ", need [samples, ..., dim], [dim], [dim] on one device");
  require_residual(where, residual, branch.shape(), branch);
}

SumAndNorm add_norm(const Tensor& branch, const Tensor& residual, const NormParameters& norm,
                    const DropOptions& path) {
  require_defined("add_norm", {&branch, &residual, &norm.weight, &norm.bias});
  if (!fits_add_norm(branch, norm)) {
    const Tensor sum = drop_path(branch, path.p, path.seed, path.stream, path.counter, residual);
    return {sum, layer_norm(sum, norm.weight, norm.bias, norm.eps, branch.dtype())};
  }
  check_add_norm("add_norm", branch, residual, norm, path);
  const AddNorm op = AddNorm::of(norm, path);
  const Tensor sum = apply(AddNorm(op), branch, path.counter, residual, norm.weight, norm.bias);
  return {sum, norm_of_sum(sum, op.handed)};
}

}  // namespace pursuit
