#include "cuda/laboratory/matmul.cuh"

#include "cuda/laboratory/laboratory.h"
#include "cuda/laboratory/sizes.h"
#include "engine/ops.h"

namespace pursuit::laboratory {

Tensor matmul([[maybe_unused]] int version, const Tensor& left, const Tensor& right,
              [[maybe_unused]] Counts* counts) {
  if (!left.device().is_cuda()) return pursuit::matmul(left, right);
  const Tensor a = left.contiguous(), b = right.contiguous(),
               c = empty({a.size(0), b.size(1)}, DType::f32, a.device());
#ifdef PURSUIT_GPU
  const Sizes s{a.size(0), b.size(1), a.size(1)};
  if (c.numel() == 0) return c;
  const float *pa = a.data<float>(), *pb = b.data<float>();
  float* pc = c.data<float>();
  with_meter(counts, [&](auto meter) {
    if (version == 1)
      matmul_1(meter, pa, pb, pc, s);
    else if (version == 2)
      matmul_2(meter, pa, pb, pc, s);
    else if (version == 3)
      matmul_3(meter, pa, pb, pc, s);
    else
      matmul_4(meter, pa, pb, pc, s);
  });
#endif
  return c;
}

namespace {

template <int version>
struct Matmul : WithoutGradient {
  static constexpr const char name[] = {'m', 'a', 't', 'm', 'u', 'l', '_', '0' + version, 0};
  Tensor forward(const Tensor& a, const Tensor& b) { return matmul(version, a, b); }
  static std::vector<Sample<Matmul>> samples() {
    std::vector<Sample<Matmul>> all;
    // Smaller and larger than a tile, whole packs and none, several steps, an empty inner dimension.
    for (const Sizes s :
         {Sizes{3, 4, 5}, {1, 6, 1}, {65, 17, 129}, {130, 132, 20}, {128, 128, 16}, {2, 3, 0}})
      all.push_back({{}, {constant({{s.m, s.k}}), constant({{s.k, s.n}})}});
    return all;
  }
};
using Matmul1 = Matmul<1>;
using Matmul2 = Matmul<2>;
using Matmul3 = Matmul<3>;
using Matmul4 = Matmul<4>;
PURSUIT_OPERATOR(Matmul1)
PURSUIT_OPERATOR(Matmul2)
PURSUIT_OPERATOR(Matmul3)
PURSUIT_OPERATOR(Matmul4)

}  // namespace

}  // namespace pursuit::laboratory
