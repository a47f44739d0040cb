#include <string>

#include "apps/examples/laboratory/cpu_solution.h"
#include "apps/examples/laboratory/laboratory.h"
#include "engine/cpu/rows.h"
#include "engine/ops.h"

namespace pursuit::laboratory {

namespace {

template <class Shape, class Meter, class T>
PURSUIT_INLINED void any_version(int version, Meter meter, const T* a, const T* b, T* c, Sizes s) {
  if (version == 1)
    cpu_matmul_1(meter, a, b, c, s);
  else if (version == 2)
    cpu_matmul_2(meter, a, b, c, s);
  else if (version == 3)
    cpu_matmul_3(meter, a, b, c, s);
  else if (version == 4)
    cpu_matmul_4<Shape>(meter, a, b, c, s);
  else
    cpu_matmul_5<Shape>(meter, a, b, c, s);
}

// One function per instruction set, into which the compiler inlines the whole version.
template <class T>
[[gnu::target("avx512f,avx512vl,avx512dq,avx512bw,fma,prefer-vector-width=512")]] void on_avx512(
    int version, const T* a, const T* b, T* c, Sizes s) {
  any_version<TileOfAvx512>(version, Plain{}, a, b, c, s);
}
template <class T>
[[gnu::target("avx2,fma")]] void on_avx2(int version, const T* a, const T* b, T* c, Sizes s) {
  any_version<TileOfAvx2>(version, Plain{}, a, b, c, s);
}
template <class T> void on_sse2(int version, const T* a, const T* b, T* c, Sizes s) {
  any_version<TileOfSse2>(version, Plain{}, a, b, c, s);
}

template <class T> void run(int version, const T* a, const T* b, T* c, Sizes s) {
  static const std::string isa = rows<float>().isa;
  (isa == "avx512" ? on_avx512<T> : isa == "avx2" ? on_avx2<T> : on_sse2<T>)(version, a, b, c, s);
}

// Counts do not depend on the machine: they use AVX-512's tile.
void count(int version, const float* a, const float* b, float* c, Sizes s, Counts* counts) {
  any_version<TileOfAvx512>(version, Counting(counts), a, b, c, s);
}

}  // namespace

Tensor cpu_matmul(int version, const Tensor& left, const Tensor& right, Counts* counts) {
  const bool transposed = version == solution;
  if (left.ndim() != 2 || right.ndim() != 2 || left.size(1) != right.size(transposed ? 1 : 0) ||
      left.dtype() != right.dtype())
    fail("laboratory", "cpu_matmul got " + left.str() + " and " + right.str() + ", need [m, k] and " +
                           (transposed ? "[n, k]" : "[k, n]") + " of one dtype");
  const Tensor a = left.contiguous(), b = right.contiguous();
  const Sizes s{a.size(0), b.size(transposed ? 0 : 1), a.size(1)};
  const Tensor c = empty({s.m, s.n}, a.dtype());
  if (c.numel() == 0) return c;
  if (counts)
    count(version, a.data<float>(), b.data<float>(), c.data<float>(), s, counts);
  else if (a.dtype() == DType::f64)
    run(version, a.data<double>(), b.data<double>(), c.data<double>(), s);
  else
    run(version, a.data<float>(), b.data<float>(), c.data<float>(), s);
  return c;
}

namespace {

constexpr const char* names[] = {
    "", "cpu_matmul_1", "cpu_matmul_2", "cpu_matmul_3", "cpu_matmul_4", "cpu_matmul_5"};

template <int version> struct CpuMatmul : WithoutGradient {
  static constexpr const char* name = names[version];
  static constexpr bool transposed = version == solution;
  Tensor forward(const Tensor& a, const Tensor& b) { return cpu_matmul(version, a, b); }
  Tensor reference(const Tensor& a, const Tensor& b) const {
    return pursuit::matmul(a, transposed ? b.transpose(0, 1) : b);
  }
  static std::vector<Sample<CpuMatmul>> samples() {
    std::vector<Sample<CpuMatmul>> all;
    // Smaller and larger than a tile, than version 3's blocks and than version 4's depth; no inner dimension.
    for (const Sizes s : {Sizes{3, 4, 5}, {1, 6, 1}, {65, 17, 129}, {17, 523, 130}, {16, 96, 300}, {2, 3, 0}})
      all.push_back(
          {{}, {constant({{s.m, s.k}}), constant({transposed ? Shape{s.n, s.k} : Shape{s.k, s.n}})}});
    return all;
  }
};
using CpuMatmul1 = CpuMatmul<1>;
using CpuMatmul2 = CpuMatmul<2>;
using CpuMatmul3 = CpuMatmul<3>;
using CpuMatmul4 = CpuMatmul<4>;
using CpuMatmul5 = CpuMatmul<5>;
PURSUIT_OPERATOR(CpuMatmul1)
PURSUIT_OPERATOR(CpuMatmul2)
PURSUIT_OPERATOR(CpuMatmul3)
PURSUIT_OPERATOR(CpuMatmul4)
PURSUIT_OPERATOR(CpuMatmul5)

}  // namespace

}  // namespace pursuit::laboratory
