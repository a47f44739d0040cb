#include "engine/ops/add_norm.h"
#include "engine/ops/mlp.h"

namespace pursuit {

namespace {

// add_norm, mlp and add_norm with one kernel in the forward pass. Their own backward passes follow one another.
// tests/cuda/simt_norm_test.cpp compares it with the three.
struct ResidualMlp {
  static constexpr const char* name = "residual_mlp";
  AddNorm before, after;
  Mlp mlp;
  Needs needs = {};

  // Whether anything before the second sum needs a gradient.
  bool needs_mlp() const { return needs.bits & 0x1ff; }

#ifdef PURSUIT_GPU
  static cuda::StripNorm strip_norm(const AddNorm& of, const Tensor& bias) {
    return {of.factor(),          of.weight.data<float>(),      bias.data<float>(),    float(of.eps),
            of.sum.data<float>(), of.handed->norm.data<bf16>(), of.mean.data<float>(), of.rstd.data<float>()};
  }
  static void kernel(Cuda, const ResidualMlp& op, const Tensor& branch, const Tensor& residual,
                     const Tensor& bias_before, const Tensor& b1, const Tensor& b2,
                     const Tensor& bias_after) {
    const Mlp& m = op.mlp;
    const auto forward = m.activation == Activation::relu ? cuda::residual_mlp<cuda::ReluOf>
                                                          : cuda::residual_mlp<cuda::GeluOf>;
    forward(branch.data<bf16>(), residual.data<float>(), strip_norm(op.before, bias_before),
            m.w1.data<bf16>(), b1.data<bf16>(), m.w2.data<bf16>(), b2.data<bf16>(),
            m.hidden.defined() ? m.hidden.data<bf16>() : nullptr, strip_norm(op.after, bias_after),
            m.shape_of_kernel());
  }
#endif

  Tensor forward(const Tensor& branch, const Tensor& counter, const Tensor& residual,
                 const Tensor& weight_before, const Tensor& bias_before, const Tensor& w1, const Tensor& b1,
                 const Tensor& w2, const Tensor& b2, const Tensor& mlp_counter, const Tensor& weight_after,
                 const Tensor& bias_after) {
    mlp.needs.bits = needs_mlp() ? 1 | (needs.bits >> 5 & 15) << 1 : 0;  // x, w1, b1, w2, b2
    const Tensor plus = residual.contiguous();
    before.prepare(counter, plus, weight_before, branch.dtype());
    after.prepare(mlp_counter, plus, weight_after, branch.dtype());
    mlp.prepare(before.handed->norm, w1, w2);
    dispatch(branch.device(), name, [&](auto dev) {
      launch<ResidualMlp>(dev, *this, branch.contiguous(), plus, bias_before.contiguous(), b1.contiguous(),
                          b2.contiguous(), bias_after.contiguous());
    });
    mlp.keep_needed();
    before.handed->norm = {};
    return after.sum;
  }

  // Each part lets go of what it saved when its backward is done.
  Grads backward(const Tensor& gy, Needs) {
    Grads of_after = after.gradients(gy, AddNorm::owned(gy));
    after = {};
    if (!needs_mlp()) return {{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, of_after[3], of_after[4]};
    Grads of_mlp = mlp.backward(std::exchange(of_after[0], {}), {});
    mlp = {};
    before.handed->gradient = std::exchange(of_mlp[0], {});
    const Grads of_before = before.gradients(of_after[2], /*in_place=*/true);
    return {of_before[0], Tensor(),  of_before[2], of_before[3], of_before[4], of_mlp[1],
            of_mlp[2],    of_mlp[3], of_mlp[4],    Tensor(),     of_after[3],  of_after[4]};
  }

  static std::vector<Sample<ResidualMlp>> samples() {
    return {{{},
             {{{3, 5}},
              left_out(),
              {{3, 5}},
              {{5}},
              {{5}},
              {{7, 5}},
              {{7}},
              {{5, 7}},
              {{5}},
              left_out(),
              {{5}},
              {{5}}}}};
  }
};

}  // namespace

SumAndNorm residual_mlp(const Tensor& branch, const Tensor& residual, const NormParameters& before,
                        const DropOptions& path, const Tensor& w1, const Tensor& b1, const Tensor& w2,
                        const Tensor& b2, Activation f, const NormParameters& after,
                        const DropOptions& mlp_path) {
  constexpr const char* name = ResidualMlp::name;
  require_defined(name, {&branch, &residual, &before.weight, &before.bias, &w1, &b1, &w2, &b2, &after.weight,
                         &after.bias});
  check_mlp(name, branch, w1, b1, w2, b2);
  if (w2.size(0) != w1.size(1))
    fail(name, "got w1 " + w1.str() + " and w2 " + w2.str() + ", need [hidden, dim], [dim, hidden]");
  const int64_t in = w1.size(1), rows = branch.numel() / in;
  const bool fused = residual.dtype() == DType::f32 && fits_add_norm(branch, before) &&
                     fits_add_norm(branch, after) && fits_mlp_kernel(w2, {rows, in, w1.size(0), in}) &&
                     mlp_form() == MlpForm::with_norms;
  if (!fused) {
    const auto [sum, norm] = add_norm(branch, residual, before, path);
    return add_norm(mlp(norm, w1, b1, w2, b2, {}, f), sum, after, mlp_path);
  }
  check_add_norm(name, branch, residual, before, path);
  check_add_norm(name, branch, residual, after, mlp_path);
  const ResidualMlp op{AddNorm::of(before, path), AddNorm::of(after, mlp_path), Mlp{f}};
  const Tensor sum = apply(ResidualMlp(op), branch, path.counter, residual, before.weight, before.bias, w1,
                           b1, w2, b2, mlp_path.counter, after.weight, after.bias);
  return {sum, norm_of_sum(sum, op.after.handed)};
}

}  // namespace pursuit
