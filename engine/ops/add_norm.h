#pragma once
#include "cuda/add_norm.cuh"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

// residual + drop_path(branch), and its norm, on a GPU. Saves the sum and the norm's statistics; backward
// draws the same mask again. tests/cuda/simt_norm_test.cpp compares it with drop_path and layer_norm.
struct AddNorm {
  static constexpr const char* name = "add_norm";
  // Passed between this operator and norm_of_sum: the norm in the forward pass, its gradient in the backward
  // pass.
  struct Handed {
    Tensor norm, gradient;
  };
  DropOptions path = {};
  double eps = 1e-6;
  std::shared_ptr<Handed> handed = {};
  Tensor sum = {}, weight = {}, mean = {}, rstd = {};
  DType dtype = DType::f32;  // of branch and norm

  // Without the counter, which is an input.
  static AddNorm of(const NormParameters& norm, const DropOptions& path) {
    return {.path = {path.p, path.seed, path.stream}, .eps = norm.eps, .handed = std::make_shared<Handed>()};
  }
  // Allocates the results and takes what backward needs.
  void prepare(const Tensor& number, const Tensor& residual, const Tensor& w, DType of_branch);
#ifdef PURSUIT_GPU
  cuda::DropFactor factor() const;
  template <class T, class Y>
  static void kernel(Cuda, const AddNorm& op, const T* residual, const Y* branch, const float* bias, Y* norm);
  template <class T, class Y>
  static void gradient(Cuda, const AddNorm& op, const T* so_far, const Y* gy, T* gx, Y* branch, float* gp);
#endif

  Tensor forward(const Tensor& in, const Tensor& number, const Tensor& residual, const Tensor& w,
                 const Tensor& b);
  Grads backward(const Tensor& gy, Needs);
  // The same; `in_place`: the residual's gradient takes the memory of gy, a contiguous tensor.
  Grads gradients(const Tensor& gy, bool in_place);
  // Whether backward may write into a gradient, because nobody else uses it.
  static bool owned(const Tensor& gy) { return gy.is_contiguous() && gy.storage().use_count() == 1; }
  static std::vector<Sample<AddNorm>> samples() {
    return {{{}, {{{3, 5}}, left_out(), {{3, 5}}, {{5}}, {{5}}}}};
  }
};

// Whether AddNorm is for these, rather than drop_path and layer_norm.
bool fits_add_norm(const Tensor& branch, const NormParameters& norm);
// Throws, in the name of `where`, unless branch [samples, ..., dim], residual, norm and path are what AddNorm takes.
void check_add_norm(const char* where, const Tensor& branch, const Tensor& residual,
                    const NormParameters& norm, const DropOptions& path);
// The norm that AddNorm, or an operator that contains it, made of `sum`; on the tape its gradient goes there.
Tensor norm_of_sum(const Tensor& sum, const std::shared_ptr<AddNorm::Handed>& handed);

}  // namespace pursuit
