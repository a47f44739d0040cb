#include <cusolverDn.h>

#include <map>

#include "cuda/check.h"
#include "cuda/runtime.h"
#include "cuda/solver.h"
#include "cuda/workspace.h"

namespace pursuit::cuda {

namespace {

cusolverDnHandle_t handle(int device) {
  static thread_local std::map<int, cusolverDnHandle_t> handles;
  cusolverDnHandle_t& h = handles[device];
  if (!h) CUDA_CHECK(cusolverDnCreate(&h));
  CUDA_CHECK(cusolverDnSetStream(h, static_cast<cudaStream_t>(current_stream())));
  return h;
}

// The settings of cuSOLVER's Jacobi method, at their defaults.
struct Settings {
  gesvdjInfo_t info = nullptr;
  Settings() { CUDA_CHECK(cusolverDnCreateGesvdjInfo(&info)); }
  ~Settings() { cusolverDnDestroyGesvdjInfo(info); }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;
};

}  // namespace

// cuSOLVER is column-major and sees A^T [n, m] = V diag(s) U^T: its left singular vectors are our right ones,
// and its columns are our rows.
std::vector<int32_t> svd(const Svd& p) {
  const int device = current_device(), rows = int(p.n), cols = int(p.m), batch = int(p.batch);
  const int64_t k = p.small();
  const cusolverDnHandle_t h = handle(device);
  const Settings settings;
  const auto vectors = CUSOLVER_EIG_MODE_VECTOR;
  int size = 0;
  if (p.batched())
    CUDA_CHECK(cusolverDnSgesvdjBatched_bufferSize(h, vectors, rows, cols, p.a, rows, p.s, p.vt, rows, p.ut,
                                                   cols, &size, settings.info, batch));
  else
    CUDA_CHECK(cusolverDnSgesvdj_bufferSize(h, vectors, 1, rows, cols, p.a, rows, p.s, p.vt, rows, p.ut, cols,
                                            &size, settings.info));
  const Workspace<float> memory(size);
  const Workspace<int> status(batch);
  float* work = memory.data();
  int* info = status.data();
  if (p.batched()) {
    CUDA_CHECK(cusolverDnSgesvdjBatched(h, vectors, rows, cols, p.a, rows, p.s, p.vt, rows, p.ut, cols, work,
                                        size, info, settings.info, batch));
  } else {
    for (int64_t i = 0; i < batch; ++i)
      CUDA_CHECK(cusolverDnSgesvdj(h, vectors, 1, rows, cols, p.a + i * p.m * p.n, rows, p.s + i * k,
                                   p.vt + i * k * p.n, rows, p.ut + i * k * p.m, cols, work, size, info + i,
                                   settings.info));
  }
  std::vector<int32_t> found(static_cast<size_t>(batch));
  copy_to_host(found.data(), info, device, found.size() * sizeof(int32_t));
  return found;
}

}  // namespace pursuit::cuda
