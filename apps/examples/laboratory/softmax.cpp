#include "apps/examples/laboratory/laboratory.h"
#include "apps/examples/laboratory/solutions.cuh"
#include "engine/ops.h"

namespace pursuit::laboratory {

Tensor softmax([[maybe_unused]] int version, const Tensor& in, [[maybe_unused]] Counts* counts) {
  if (in.ndim() == 0) fail("laboratory", "softmax got " + in.str() + ", need at least one dimension");
  if (!in.device().is_cuda()) return pursuit::softmax(in);
  const Tensor x = in.contiguous(), y = empty_like(x);
#ifdef PURSUIT_GPU
  if (x.numel() == 0) return y;
  const int64_t cols = x.shape().back(), n = x.numel() / cols;
  const float* from = x.data<float>();
  float* to = y.data<float>();
  with_meter(counts, [&](auto meter) {
    if (version == 1) {
      const Tensor most = empty({n}, DType::f32, x.device()), sums = empty_like(most);
      softmax_1(meter, from, to, most.data<float>(), sums.data<float>(), n, cols);
    } else if (version == 2) {
      softmax_2(meter, from, to, n, cols);
    } else if (version == 3) {
      softmax_3(meter, from, to, n, cols);
    } else if (version == 4) {
      softmax_4(meter, from, to, n, cols);
    } else {
      softmax_5(meter, from, to, n, cols);
    }
  });
#endif
  return y;
}

namespace {

constexpr const char* names[] = {"", "softmax_1", "softmax_2", "softmax_3", "softmax_4", "softmax_5"};

template <int version> struct Softmax : WithoutGradient {
  static constexpr const char* name = names[version];
  Tensor forward(const Tensor& x) { return softmax(version, x); }
  static std::vector<Sample<Softmax>> samples() {
    std::vector<Sample<Softmax>> all;
    // Rows shorter and longer than a warp, than a block and than version 4's registers, with and without
    // whole packs.
    for (const Shape& shape :
         {Shape{3, 5}, {129, 8}, {2, 3, 129}, {4, 1}, {0, 7}, {5, 512}, {3, 1024}, {2, 1500}}) {
      const double tolerance = version == 1 ? one_by_one(shape.back()) : 1;
      all.push_back({{}, {constant({shape, -8, 8})}, tolerance});
    }
    return all;
  }
};
using Softmax1 = Softmax<1>;
using Softmax2 = Softmax<2>;
using Softmax3 = Softmax<3>;
using Softmax4 = Softmax<4>;
using Softmax5 = Softmax<5>;
PURSUIT_OPERATOR(Softmax1)
PURSUIT_OPERATOR(Softmax2)
PURSUIT_OPERATOR(Softmax3)
PURSUIT_OPERATOR(Softmax4)
PURSUIT_OPERATOR(Softmax5)

}  // namespace

}  // namespace pursuit::laboratory
