#pragma once
#include "cuda/mlp.cuh"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

// GELU's result is made again for the gradient of w2: on the CPU for one chunk of rows at a time, on the GPU by
// its kernel for many narrow rows. Other rows on a GPU keep it: another pass would slow backward down more than
// the memory is worth. ReLU's result is stored in place of the pre-activation, which is not needed:
// relu(relu(x)) = relu(x).
// T is the type of the operands, Y that of the residual and the result: T, or f32 if T is bf16.
struct Mlp {
  static constexpr const char* name = "mlp";
  Activation activation = Activation::gelu;
  Tensor x = {}, w1 = {};  // each is saved for the other's gradient only
  Tensor w2 = {};
  Tensor hidden = {};  // [rows, hidden], before GELU or after ReLU; undefined if nothing reads it
  Tensor active = {};  // on the GPU: after GELU or ReLU, if it is saved
  Shape shape_of_x = {};
  struct Sizes {
    int64_t rows, in, hidden, out;
  };
  Sizes sizes = {};
  bool in_one_kernel = false;  // whether a GPU makes both products in one kernel
  bool has_residual = false;
  Needs needs = {};

  // The results of backward; undefined where not needed.
  struct Wanted {
    Tensor x, w1, b1, w2, b2;
  };

  // Takes the operands and allocates what backward reads.
  void prepare(const Tensor& in, const Tensor& first, const Tensor& second);
  // Lets go of operands that backward does not need.
  void keep_needed();
  template <class T, class Y> static void kernel(Cpu, Type<T>, Type<Y>, const Mlp& op, const Tensor& b1,
                                                 const Tensor& b2, const Tensor& residual, const Tensor& y);
  template <class T> static void gradient(Cpu, const Mlp& op, const T* gy, const Wanted& wanted);
#ifdef PURSUIT_GPU
  cuda::MlpShape shape_of_kernel() const {
    return {int(sizes.rows), int(sizes.in), int(sizes.hidden), int(sizes.out)};
  }
  template <class T, class Y> static void kernel(Cuda, Type<T>, Type<Y>, const Mlp& op, const Tensor& b1,
                                                 const Tensor& b2, const Tensor& residual, const Tensor& y);
  template <class T> static void gradient(Cuda, const Mlp& op, const T* gy, const Wanted& wanted);
  template <class T> void gradient_before_w2(const T* gy, T* gh, T* result, const Wanted& wanted) const;
#endif
  int64_t rows_at_once() const;
  bool makes_result() const;

  Tensor forward(const Tensor& in, const Tensor& first, const Tensor& b1, const Tensor& second,
                 const Tensor& b2, const Tensor& residual);
  Grads backward(const Tensor& gy, Needs);
  Tensor reference(const Tensor& in, const Tensor& first, const Tensor& b1, const Tensor& second,
                   const Tensor& b2, const Tensor& residual) const;
  static std::vector<Sample<Mlp>> samples();
};

// How a GPU makes the MLP of narrow rows: in one kernel with the norms on both sides; PURSUIT_MLP=apart: norms
// by kernels of their own; PURSUIT_MLP=products: product by product. For measurements.
enum class MlpForm { with_norms, apart, products };
MlpForm mlp_form();
// Whether a GPU makes both products in one kernel.
bool fits_mlp_kernel(const Tensor& weight, const Mlp::Sizes& sizes);
// Throws, in the name of `where`, unless mlp takes these.
void check_mlp(const char* where, const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2,
               const Tensor& b2);

}  // namespace pursuit
