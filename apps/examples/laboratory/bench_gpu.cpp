#include <algorithm>
#include <cstdio>
#include <functional>

#include "apps/examples/laboratory/laboratory.h"
#include "apps/examples/laboratory/programs.h"
#include "cuda/runtime.h"
#include "engine/ops.h"
#ifdef __CUDACC__
#include "cuda/check.h"
#include "engine/program/describe.h"
#endif

namespace pursuit::laboratory {

#ifdef __CUDACC__
namespace {

// Milliseconds per call on the GPU: the median of 20 measurements of 5 calls between two events, after a
// warm-up.
float milliseconds(const std::function<void()>& call) {
  const auto stream = static_cast<cudaStream_t>(cuda::current_stream());
  cudaEvent_t begin, end;
  CUDA_CHECK(cudaEventCreate(&begin));
  CUDA_CHECK(cudaEventCreate(&end));
  constexpr int stretches = 20, calls = 5;
  std::vector<float> times;
  for (int i = 0; i <= stretches; ++i) {
    CUDA_CHECK(cudaEventRecord(begin, stream));
    for (int k = 0; k < calls; ++k) call();
    CUDA_CHECK(cudaEventRecord(end, stream));
    CUDA_CHECK(cudaEventSynchronize(end));
    float t = 0;
    CUDA_CHECK(cudaEventElapsedTime(&t, begin, end));
    if (i > 0) times.push_back(t / calls);
  }
  CUDA_CHECK(cudaEventDestroy(begin));
  CUDA_CHECK(cudaEventDestroy(end));
  std::nth_element(times.begin(), times.begin() + stretches / 2, times.end());
  return times[stretches / 2];
}

int attribute(cudaDeviceAttr which) {
  int value = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&value, which, cuda::current_device()));
  return value;
}

// The device's peak rates, 0 if unknown. GB/s: two transfers per clock over the bus. GFLOP/s of f32: two per
// lane and clock, with 64 lanes per multiprocessor on sm_80 and 128 on later ones.
double peak_bandwidth() {
  return 2e-6 * attribute(cudaDevAttrMemoryClockRate) * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
}
double peak_arithmetic() {
  const int capability =
      attribute(cudaDevAttrComputeCapabilityMajor) * 10 + attribute(cudaDevAttrComputeCapabilityMinor);
  const int lanes = capability == 80 ? 64 : capability > 80 ? 128 : 0;
  return 2e-6 * attribute(cudaDevAttrClockRate) * attribute(cudaDevAttrMultiProcessorCount) * lanes;
}

// `work` per call in units of 1e9; the device's peak rate is `peak` of these per second.
void row(const std::string& name, const std::function<void()>& call, double work, double peak) {
  const double ms = milliseconds(call), rate = work / ms * 1e3;
  std::printf("| %s | %.4f | %.1f |", name.c_str(), ms, rate);
  if (peak > 0)
    std::printf(" %.0f %% |\n", 100 * rate / peak);
  else
    std::printf(" unknown |\n");
}

void head(const char* title, const char* rate) {
  std::printf("%s:\n\n| | ms | %s | of the device's peak |\n|---|---:|---:|---:|\n", title, rate);
}

}  // namespace

int bench_gpu() {
  if (!cuda::available()) {
    std::fprintf(stderr, "laboratory: kernels are not timed: %s\n", cuda::why_not().c_str());
    return 2;
  }
  const Device gpu = cuda_device();
  std::fprintf(stderr, "%s\n", describe(gpu).c_str());
  // 128 MiB each for input and output: larger than caches.
  const int64_t n = 65536, cols = 512, m = 4096;
  const Tensor x = uniform({n, cols}, -8, 8, 1, 0).to(gpu);
  const double bytes = 8e-9 * double(n * cols);  // read once, written once
  head("Softmax of 65536 rows of 512 columns", "GB/s, as if each number was read and written once");
  row(
      "the engine's", [&] { pursuit::softmax(x); }, bytes, peak_bandwidth());
  for (int v = 1; v <= versions; ++v)
    row(
        "`softmax_" + std::to_string(v) + "`", [&] { softmax(v, x); }, bytes, peak_bandwidth());
  const Tensor a = uniform({m, m}, -1, 1, 1, 0).to(gpu), b = uniform({m, m}, -1, 1, 1, 1).to(gpu);
  const double flops = 2e-9 * double(m) * double(m) * double(m);
  std::printf("\n");
  head("Matrix product, 4096 x 4096 by 4096 x 4096", "GFLOP/s");
  row(
      "the engine's", [&] { pursuit::matmul(a, b); }, flops, peak_arithmetic());
  for (int v = 1; v <= versions; ++v)
    row(
        "`matmul_" + std::to_string(v) + "`", [&] { matmul(v, a, b); }, flops, peak_arithmetic());
  return 0;
}
#else
int bench_gpu() {
  std::fprintf(stderr, "laboratory: kernels are not timed: %s\n",
               cuda::available() ? "the GPU of this build is simulated" : cuda::why_not().c_str());
  return 2;
}
#endif

}  // namespace pursuit::laboratory
