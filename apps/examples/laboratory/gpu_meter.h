#pragma once
#include "apps/examples/laboratory/meter.h"
#include "cuda/launch.h"
#include "cuda/pack.h"
#include "engine/core/tensor.h"
#ifdef PURSUIT_SIMULATED
#include "apps/examples/laboratory/sectors.h"
#endif

// Meters of kernels. Kernels are counted only on the simulated GPU, where every thread can be observed; on a
// real GPU, use a profiler.
#ifdef PURSUIT_GPU
namespace pursuit::laboratory {

// Starts a kernel whose first argument is the meter.
template <auto kernel, class Meter, class... A>
void start(const cuda::Grid& grid, Meter meter, const A&... arguments) {
  meter.launched(int64_t(grid.blocks.x) * grid.blocks.y * grid.blocks.z);
  cuda::launch<kernel>(grid, meter, arguments...);
}

#ifdef PURSUIT_SIMULATED
// The counts are in the GPU's memory. The simulated GPU runs every launch in three thread orders from the
// same memory, so one run counts, and it fails if another order counts differently.
class GpuCounting : public Counting {
 public:
  using Counting::Counting;
  void launched(int64_t blocks) {
    ++counts_->launches;
    counts_->blocks += blocks;
  }
  template <class T> Counted<T, GpuCounting> memory(T* p) { return {p, this, false}; }
  template <class T> Counted<T, GpuCounting> shared(T* p) { return {p, this, true}; }
  float exp(float x) {
    ++counts_->exponentials;
    return expf(x);
  }
  void access(const void* p, bool is_store, int64_t bytes) {
    Counting::access(p, is_store, bytes);
    counts_->sectors += new_sectors(number_++, p, bytes);
  }

 private:
  int64_t number_ = 0;  // of this thread's next load or store
};

template <int V, class T> cuda::Pack<std::remove_const_t<T>, V> load_pack(const Counted<T, GpuCounting>& p) {
  p.note(false, V * sizeof(T));
  return cuda::load_pack<V>(p.p);
}
template <class T, int V> void store_pack(const Counted<T, GpuCounting>& p, const cuda::Pack<T, V>& pack) {
  p.note(true, sizeof pack);
  cuda::store_pack(p.p, pack);
}
#endif

using cuda::load_pack;
using cuda::store_pack;

// Calls f(meter) with a plain meter, or with a counting one if counts are requested.
template <class F> void with_meter(Counts* counts, const F& f) {
  if (!counts) return f(Plain{});
#ifdef PURSUIT_SIMULATED
  const Tensor there = zeros({int64_t(sizeof(Counts) / sizeof(int64_t))}, DType::i64, cuda_device());
  f(GpuCounting(static_cast<Counts*>(there.raw())));
  synchronize(there.device());
  *counts = *static_cast<const Counts*>(there.raw());
#else
  fail("laboratory",
       "got a GPU, kernels are counted on the simulated one; build with -DPURSUIT_CUDA=SIMULATED");
#endif
}

}  // namespace pursuit::laboratory
#endif
