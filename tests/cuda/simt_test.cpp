// The simulated GPU itself: the mistakes that it must detect, and its versions of hardware instructions.
#ifdef PURSUIT_SIMULATED
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/launch.h"
#include "cuda/simulated/stream.h"
#include "cuda/tile.h"
#include "engine/ops.h"
#include "engine/step/graph.h"
#include "tests/differences.h"

using namespace pursuit;
using namespace pursuit::cuda;

namespace {

// Rotates a block's numbers by one through shared memory; without `Barrier` it has a race.
template <bool Barrier> __global__ void rotate(const float* x, float* y) {
  Shared shared;
  float* s = shared.array<float>(blockDim.x);
  s[threadIdx.x] = x[threadIdx.x];
  if (Barrier) __syncthreads();
  y[threadIdx.x] = s[(threadIdx.x + 1) % blockDim.x];
}

// The same race between lanes, and between blocks through global memory.
__global__ void rotate_in_warp(float* y) {
  Shared shared;
  float* s = shared.array<float>(32);
  s[threadIdx.x] = float(threadIdx.x);
  y[threadIdx.x] = s[threadIdx.x ^ 1];
}
__global__ void last_block_wins(float* y) {
  if (threadIdx.x == 0) y[0] = float(blockIdx.x);
}
__global__ void sum_by_atomics(const float* x, float* y) { atomicAdd(y, x[threadIdx.x]); }

#ifdef PURSUIT_ASAN
__global__ void write_beside_shared(float* y) {
  Shared shared;
  float* s = shared.array<float>(blockDim.x);
  float* other = shared.array<float>(4);
  s[threadIdx.x + 1] = 1;
  other[threadIdx.x % 4] = 2;
  y[threadIdx.x] = s[threadIdx.x];
}
__global__ void write_beside_global(float* y) { y[threadIdx.x + 1] = 1; }
#endif

__global__ void diverging_barrier(float* y) {
  if (threadIdx.x < 7)
    __syncthreads();
  else
    __syncwarp();
  y[threadIdx.x] = 0;
}
// All threads wait, some of them elsewhere.
__global__ void two_barriers(float* y) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  y[threadIdx.x] = 0;
}
__global__ void lane_missing(float* y) {
  if (threadIdx.x < 31) y[threadIdx.x] = warp_sum(1);
}
__global__ void too_much_shared(float* y) {
  Shared shared;
  y[0] = shared.array<float>(1000)[0];
}

// y = x by asynchronous copies, with or without waiting for them.
template <bool Wait> __global__ void copy_through_shared(const float* x, float* y) {
  Shared shared;
  float* s = shared.array<float>(4 * blockDim.x);
  copy_async(s + 4 * threadIdx.x, x + 4 * threadIdx.x);
  close_copies();
  if (Wait) wait_copies<0>();
  for (int i = 0; i < 4; ++i) y[4 * threadIdx.x + i] = s[4 * threadIdx.x + i];
  wait_copies<0>();
}

// Copies new numbers over those that other warps read, with or without a barrier before, and waits after one.
template <bool Barrier> __global__ void copy_over_shared(const float* x, float* y) {
  Shared shared;
  const int size = 4 * int(blockDim.x), at = 4 * int(threadIdx.x);
  float* s = shared.array<float>(size);
  for (int i = 0; i < 4; ++i) s[at + i] = x[at + i];
  __syncthreads();
  y[threadIdx.x] = s[(at + size / 2) % size];
  if (Barrier) __syncthreads();
  copy_async(s + at, x + size + at);
  close_copies();
  __syncthreads();
  wait_copies<0>();
}

__global__ void sums(const float* x, float* y) {
  Shared shared;
  float* part = shared.array<float>(32);
  const float sum = block_sum(x[threadIdx.x], part), most = block_max(x[threadIdx.x], part);
  const uint32_t votes = __ballot_sync(all_lanes, x[threadIdx.x] > 0);
  y[threadIdx.x] = sum;
  y[blockDim.x + threadIdx.x] = most;
  y[2 * blockDim.x + threadIdx.x] = float(__popc(votes));
}

// c [16, 16] = a b, depth 32, with a stored by rows or columns and b by columns or rows of the product.
template <class T, bool a_column, bool b_column> __global__ void product(const T* a, const T* b, float* c) {
  constexpr int depth = 32, lda = a_column ? 24 : 40, ldb = b_column ? 24 : 40;
  Shared shared;
  T* sa = shared.array<T>(40 * depth);
  T* sb = shared.array<T>(40 * depth);
  for (int e = threadIdx.x; e < 16 * depth; e += warp_size) {
    const int i = e / depth, k = e % depth;
    sa[a_column ? k * lda + i : i * lda + k] = a[e];
    sb[b_column ? k * ldb + i : i * ldb + k] = b[e];  // b[i * depth + k]: column i of the product's B
  }
  __syncwarp();
  TileD d[2];
  for (int k = 0; k < depth; k += tile_depth<T>) {
    TileA<T> ta;
    TileB<T> tb[2];
    if (a_column)
      load_a_column(ta, sa + k * lda, lda);
    else
      load_a_row(ta, sa + k, lda);
    if (b_column)
      load_b_column(tb, sb + k * ldb, ldb);
    else
      load_b_row(tb, sb + k, ldb);
    for (int half = 0; half < 2; ++half) multiply(d[half], ta, tb[half]);
  }
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 4; ++i) c[tile_row(i) * 16 + half * 8 + tile_col(i)] = d[half].v[i];
}

// y [16, 16] = (a b) e, where the first product stays in registers.
template <class T> __global__ void product_of_product(const T* a, const T* b, const T* e, float* y) {
  Shared shared;
  T* sa = shared.array<T>(16 * 24);
  T* sb = shared.array<T>(16 * 24);
  T* se = shared.array<T>(16 * 24);
  for (int i = threadIdx.x; i < 256; i += warp_size) {
    sa[i / 16 * 24 + i % 16] = a[i];
    sb[i / 16 * 24 + i % 16] = b[i];
    se[i / 16 * 24 + i % 16] = e[i];
  }
  __syncwarp();
  TileD first[2], second[2];
  for (int k = 0; k < 16; k += tile_depth<T>) {
    TileA<T> ta;
    TileB<T> tb[2];
    load_a_row(ta, sa + k, 24);
    load_b_column(tb, sb + k * 24, 24);
    for (int half = 0; half < 2; ++half) multiply(first[half], ta, tb[half]);
  }
  for (int k = 0; k < 16; k += tile_depth<T>) {
    TileA<T> ta;
    TileB<T> tb[2];
    results_as_a(ta, first + k / 8);
    load_b_column(tb, se + k * 24, 24);
    for (int half = 0; half < 2; ++half) multiply(second[half], ta, tb[half]);
  }
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 4; ++i) y[tile_row(i) * 16 + half * 8 + tile_col(i)] = second[half].v[i];
}

Tensor on_gpu(const Tensor& x) { return x.to(cuda_device()); }
Tensor gpu_empty(Shape shape) { return empty(shape, DType::f32, cuda_device()); }

#ifdef PURSUIT_ASAN
// Whether `f` ends the process, as AddressSanitizer does.
bool dies(const std::function<void()>& f) {
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(0);
    f();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

}  // namespace

TEST_CASE("simulated GPU: a kernel with its barriers runs") {
  const Tensor x = arange(64, DType::f32), y = gpu_empty({64});
  launch<rotate<true>>({1, 64, shared_size<float>(64)}, on_gpu(x).data<float>(), y.data<float>());
  for (int i = 0; i < 64; ++i) CHECK(y.to(cpu).to_vector()[size_t(i)] == (i + 1) % 64);
}

TEST_CASE("simulated GPU: planted races are caught") {
  const Tensor x = on_gpu(arange(64, DType::f32)), y = gpu_empty({64});
  const float* px = x.data<float>();
  float* py = y.data<float>();
  CHECK_THROWS_WITH_AS(launch<rotate<false>>({1, 64, shared_size<float>(64)}, px, py),
                       doctest::Contains("depends on the order"), Error);
  CHECK_THROWS_WITH_AS(launch<rotate_in_warp>({1, 32, shared_size<float>(32)}, py),
                       doctest::Contains("depends on the order"), Error);
  CHECK_THROWS_WITH_AS(launch<last_block_wins>({3, 32, 0}, py), doctest::Contains("depends on the order"),
                       Error);
  const Tensor fine = on_gpu(uniform({64}, 0, 1, 1, 1)), total = on_gpu(zeros({1}));
  CHECK_THROWS_WITH_AS(launch<sum_by_atomics>({1, 64, 0}, fine.data<float>(), total.data<float>()),
                       doctest::Contains("depends on the order"), Error);
}

TEST_CASE("simulated GPU: planted deadlocks and wrong launches are caught") {
  const Tensor y = gpu_empty({64});
  float* py = y.data<float>();
  CHECK_THROWS_WITH_AS(launch<diverging_barrier>({1, 32, 0}, py), doctest::Contains("for ever"), Error);
  simt::forgive();
  CHECK_THROWS_WITH_AS(launch<two_barriers>({1, 64, 0}, py), doctest::Contains("meet in the __syncthreads"),
                       Error);
  simt::forgive();
  CHECK_THROWS_WITH_AS(launch<lane_missing>({1, 32, 0}, py), doctest::Contains("lane_missing"), Error);
  simt::forgive();
  CHECK_THROWS_WITH_AS(launch<too_much_shared>({1, 32, 512}, py), doctest::Contains("takes 4000 bytes"),
                       Error);
  simt::forgive();
  CHECK_THROWS_AS(launch<last_block_wins>({1, 1025, 0}, py), Error);
  CHECK_THROWS_AS(launch<last_block_wins>({0, 32, 0}, py), Error);
  launch<last_block_wins>({1, 32, 0}, py);  // and it still works
  CHECK(y.to(cpu).to_vector()[0] == 0);
}

TEST_CASE("simulated GPU: a kernel that fails takes every later call with it") {
  const Tensor y = gpu_empty({64});
  float* py = y.data<float>();
  CHECK_THROWS_AS(launch<diverging_barrier>({1, 32, 0}, py), Error);
  const auto fails = [](const auto& call) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains("a kernel failed before"), Error);
  };
  for (int twice = 0; twice < 2; ++twice) {
    fails([&] { launch<last_block_wins>({1, 32, 0}, py); });
    fails([&] { y.to(cpu); });
    fails([&] { fill_zero(py, 0, 4); });
    fails([&] { synchronize(0); });
    fails([&] { allocate(0, 256); });
  }
  simt::forgive();
  launch<last_block_wins>({1, 32, 0}, py);
  CHECK(y.to(cpu).to_vector()[0] == 0);
}

TEST_CASE("simulated GPU: shared memory beyond 48 KiB wants to be allowed, of graphs as well") {
  const Tensor y = gpu_empty({64});
  float* py = y.data<float>();
  const auto* kernel = reinterpret_cast<const void*>(&lane_missing);  // any function that is not launched so
  const auto plain = [&](size_t shared) { simt::run(kernel, "plain", 1, 1, shared, [=] { *py = 1; }); };
  plain(simt::plain_shared);
  CHECK_THROWS_WITH_AS(plain(simt::plain_shared + 1), doctest::Contains("it is allowed 49152"), Error);
  allow_shared(kernel, 60'000);
  plain(60'000);
  const Graph graph(cuda_device(), [&] { plain(60'000); });
  allow_shared(kernel, 50'000);  // as for a later launch that takes less
  CHECK_THROWS_WITH_AS(graph.launch(), doctest::Contains("it is allowed 50000"), Error);
  allow_shared(kernel, 60'000);
  graph.launch();
  CHECK_THROWS_AS(allow_shared(kernel, shared_memory_limit() + 1), Error);
  // launch allows what there is, once.
  launch<last_block_wins>({1, 32, simt::plain_shared + 1}, py);
  launch<last_block_wins>({1, 32, shared_memory_limit()}, py);
  CHECK_THROWS_AS(launch<last_block_wins>({1, 32, shared_memory_limit() + 1}, py), Error);
}

TEST_CASE("simulated GPU: a capture has no copies and fills of 0 bytes") {
  const Tensor y = gpu_empty({64});
  std::vector<float> host(64);
  void *p = y.raw(), *work = current_stream();
  const auto record = [](const auto& call) { Graph(cuda_device(), call); };
  const auto refuses = [&](const auto& call) {
    CHECK_THROWS_WITH_AS(record(call), doctest::Contains("of 0 bytes while a graph is captured"), Error);
    CHECK_NOTHROW(call());  // outside of one
  };
  refuses([&] { not_empty::copy_on_device(p, p, 0, 0); });
  refuses([&] { not_empty::fill_zero(p, 0, 0); });
  refuses([&] { not_empty::start_copy_to_host(host.data(), p, 0, work); });
  refuses([&] { not_empty::start_copy_to_device(p, host.data(), 0, work); });
  record([&] {
    copy_on_device(p, p, 0, 0);
    fill_zero(p, 0, 0);
    start_copy_to_host(host.data(), p, 0, work);
    start_copy_to_device(p, host.data(), 0, work);
    fill_zero(p, 0, 4);
  });
}

#ifdef PURSUIT_ASAN
TEST_CASE("simulated GPU: planted overruns are caught") {
  const Tensor y = gpu_empty({64});
  float* py = y.data<float>();
  CHECK_FALSE(dies([&] { launch<last_block_wins>({1, 64, 0}, py); }));
  CHECK(dies([&] { launch<write_beside_global>({1, 64, 0}, py); }));
  CHECK(dies([&] {
    launch<write_beside_shared>({1, 64, shared_size<float>(64) + shared_size<float>(4)}, py);
  }));
}
#endif

TEST_CASE("simulated GPU: asynchronous copies that are not waited for, or begin too early, are caught") {
  const Tensor x = uniform({512}, -1, 1, 1, 1), y = gpu_empty({128}), gx = on_gpu(x);
  launch<copy_through_shared<true>>({1, 32, shared_size<float>(128)}, gx.data<float>(), y.data<float>());
  CHECK(largest_difference(y, x.slice(0, 0, 128)) == 0);
  CHECK_THROWS_WITH_AS(
      launch<copy_through_shared<false>>({1, 32, shared_size<float>(128)}, gx.data<float>(), y.data<float>()),
      doctest::Contains("asynchronous copies"), Error);
  simt::forgive();
  const Tensor z = gpu_empty({64});
  launch<copy_over_shared<true>>({1, 64, shared_size<float>(256)}, gx.data<float>(), z.data<float>());
  for (int64_t i = 0; i < 64; ++i)
    CHECK(z.to(cpu).to_vector()[size_t(i)] == x.to_vector()[size_t(4 * i + 128) % 256]);
  CHECK_THROWS_WITH_AS(
      launch<copy_over_shared<false>>({1, 64, shared_size<float>(256)}, gx.data<float>(), z.data<float>()),
      doctest::Contains("asynchronous copies"), Error);
}

TEST_CASE("simulated GPU: sums, maxima and votes") {
  const Tensor x = uniform({96}, -1, 1, 1, 2), y = gpu_empty({3, 96});
  launch<sums>({1, 96, shared_size<float>(32)}, on_gpu(x).data<float>(), y.data<float>());
  const std::vector<double> values = x.to_vector(), got = y.to(cpu).to_vector();
  double sum = 0, most = -1;
  for (double v : values) {
    sum += v;
    most = std::max(most, v);
  }
  for (size_t i = 0; i < 96; ++i) {
    CHECK(got[i] == doctest::Approx(sum).epsilon(1e-5));
    CHECK(got[96 + i] == most);
    const size_t warp = i / 32 * 32;
    CHECK(got[192 + i] == std::count_if(values.begin() + long(warp), values.begin() + long(warp) + 32,
                                        [](double v) { return v > 0; }));
  }
}

TEST_CASE_TEMPLATE("simulated GPU: tensor core tiles multiply", T, float, bf16) {
  const DType d = dtype_of<T>();
  const Tensor a = uniform({16, 32}, -1, 1, 1, 1).to(d), b = uniform({16, 32}, -1, 1, 1, 2).to(d);
  const Tensor want = matmul(a.to(DType::f64), b.to(DType::f64).transpose(0, 1));
  const Tensor ga = on_gpu(a), gb = on_gpu(b), c = gpu_empty({16, 16});
  const auto run = [&]<bool a_column, bool b_column>() {
    const size_t shared = 2 * shared_size<T>(40 * 32);
    launch<product<T, a_column, b_column>>({1, 32, shared}, ga.template data<T>(), gb.template data<T>(),
                                           c.template data<float>());
    return largest_difference(c, want);
  };
  // Products of bf16 numbers are exact in f32; f32 ones lose 2^-21 of a term.
  CHECK(run.template operator()<false, false>() < 3e-6);
  CHECK(run.template operator()<true, false>() < 3e-6);
  CHECK(run.template operator()<false, true>() < 3e-6);
  CHECK(run.template operator()<true, true>() < 3e-6);

  const Tensor x = uniform({16, 16}, -1, 1, 1, 3).to(d), y = uniform({16, 16}, -1, 1, 1, 4).to(d),
               z = uniform({16, 16}, -1, 1, 1, 5).to(d);
  const Tensor gx = on_gpu(x), gy = on_gpu(y), gz = on_gpu(z);
  launch<product_of_product<T>>({1, 32, 3 * shared_size<T>(16 * 24)}, gx.data<T>(), gy.data<T>(),
                                gz.data<T>(), c.data<float>());
  const Tensor first = matmul(x.to(DType::f64), y.to(DType::f64));
  CHECK(largest_difference(c, matmul(first, z.to(DType::f64))) < (d == DType::f32 ? 1e-5 : 0.05));
}
#endif
