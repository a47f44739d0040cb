#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>

#include "apps/examples/laboratory/laboratory.h"
#include "apps/examples/laboratory/programs.h"
#include "engine/cpu/gemm.h"
#include "engine/cpu/rows.h"
#include "engine/ops.h"

namespace pursuit::laboratory {

namespace {

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + int64_t(x.size()) / 2, x.end());
  return x[x.size() / 2];
}

// CPU time of this thread, which excludes the time that other programs take.
double seconds(const std::function<void()>& f) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  };
  const double begin = now();
  f();
  return now() - begin;
}

void bench_product(int64_t m, int64_t k, int64_t n, int rounds) {
  const Tensor a = uniform({m, k}, -1, 1, 1, 0), b = uniform({k, n}, -1, 1, 1, 1), c = empty({m, n});
  std::vector<std::function<void()>> products = {[&] {
    gemm(false, false, m, n, k, 1.0f, a.data<float>(), k, b.data<float>(), n, 0.0f, c.data<float>(), n);
  }};
  for (int version = 1; version <= versions; ++version)
    products.push_back([&a, &b, version] { cpu_matmul(version, a, b); });
  std::vector<std::vector<double>> times(products.size());
  for (int round = 0; round <= rounds; ++round)
    for (size_t i = 0; i < products.size(); ++i) {
      const double t = seconds(products[i]);
      if (round > 0) times[i].push_back(t);  // the first round is a warm-up
    }
  std::printf("Matrix product on the CPU, %lld x %lld by %lld x %lld:\n\n", static_cast<long long>(m),
              static_cast<long long>(k), static_cast<long long>(k), static_cast<long long>(n));
  std::printf("| | GFLOP/s | of the engine's speed | least | most |\n|---|---:|---:|---:|---:|\n");
  for (size_t i = 0; i < products.size(); ++i) {
    std::vector<double> ratios;
    for (size_t round = 0; round < times[i].size(); ++round)
      ratios.push_back(times[0][round] / times[i][round]);
    const std::string name = i == 0 ? "the engine's" : "`cpu_matmul_" + std::to_string(i) + "`";
    std::printf("| %s | %.1f | %.3f | %.3f | %.3f |\n", name.c_str(),
                2e-9 * double(m * n * k) / median(times[i]), median(ratios),
                *std::min_element(ratios.begin(), ratios.end()),
                *std::max_element(ratios.begin(), ratios.end()));
  }
  std::printf("\n");
}

}  // namespace

int bench_cpu(int rounds) {
  std::fprintf(stderr,
               "one thread, %s, its time on the processor; medians of %d rounds, each product once a round\n",
               rows<float>().isa, rounds);
  bench_product(1576, 192, 768, rounds);  // the first product of DeiT-tiny's MLP, 8 pictures
  bench_product(1024, 1024, 1024, rounds);
  return 0;
}

}  // namespace pursuit::laboratory
