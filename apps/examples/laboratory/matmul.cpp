#include "apps/examples/laboratory/laboratory.h"
#include "apps/examples/laboratory/solutions.cuh"
#include "engine/ops.h"

namespace pursuit::laboratory {

Tensor matmul([[maybe_unused]] int version, const Tensor& left, const Tensor& right,
              [[maybe_unused]] Counts* counts) {
  if (left.ndim() != 2 || right.ndim() != 2 || left.size(1) != right.size(0))
    fail("laboratory", "matmul got " + left.str() + " and " + right.str() + ", need [m, k] and [k, n]");
  if (!left.device().is_cuda()) return pursuit::matmul(left, right);
  const Tensor a = left.contiguous(), b = right.contiguous(),
               c = empty({a.size(0), b.size(1)}, DType::f32, a.device());
#ifdef PURSUIT_GPU
  const Sizes s{a.size(0), b.size(1), a.size(1)};
  if (c.numel() == 0) return c;
  const float *pa = a.data<float>(), *pb = b.data<float>();
  float* pc = c.data<float>();
  with_meter(counts, [&](auto meter) {
    if (version == 1) {
      matmul_1(meter, pa, pb, pc, s);
    } else if (version == 2) {
      matmul_2(meter, pa, pb, pc, s);
    } else if (version == 3) {
      matmul_3(meter, pa, pb, pc, s);
    } else if (version == 4) {
      matmul_4(meter, pa, pb, pc, s);
    } else {
      const Tensor found = empty({matmul_5_parts(s), s.m, s.n}, DType::f32, a.device());
      matmul_5(meter, pa, pb, pc, found.data<float>(), s);
    }
  });
#endif
  return c;
}

namespace {

constexpr const char* names[] = {"", "matmul_1", "matmul_2", "matmul_3", "matmul_4", "matmul_5"};

template <int version> struct Matmul : WithoutGradient {
  static constexpr const char* name = names[version];
  Tensor forward(const Tensor& a, const Tensor& b) { return matmul(version, a, b); }
  static std::vector<Sample<Matmul>> samples() {
    std::vector<Sample<Matmul>> all;
    // Smaller and larger than a tile, with and without whole packs, several steps, several parts of version
    // 5, an empty inner dimension.
    for (const Sizes s :
         {Sizes{3, 4, 5}, {1, 6, 1}, {65, 17, 129}, {130, 132, 20}, {128, 128, 16}, {5, 7, 1030}, {2, 3, 0}})
      all.push_back(
          {{}, {constant({{s.m, s.k}}), constant({{s.k, s.n}})}, version == solution ? 1 : one_by_one(s.k)});
    return all;
  }
};
using Matmul1 = Matmul<1>;
using Matmul2 = Matmul<2>;
using Matmul3 = Matmul<3>;
using Matmul4 = Matmul<4>;
using Matmul5 = Matmul<5>;
PURSUIT_OPERATOR(Matmul1)
PURSUIT_OPERATOR(Matmul2)
PURSUIT_OPERATOR(Matmul3)
PURSUIT_OPERATOR(Matmul4)
PURSUIT_OPERATOR(Matmul5)

}  // namespace

}  // namespace pursuit::laboratory
