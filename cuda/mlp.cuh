#pragma once
#include <algorithm>
#include <climits>

#include "cuda/activation.cuh"
#include "cuda/add_norm.cuh"
#include "cuda/attend.cuh"

// The MLP y = f(x W1^T + b1) W2^T + b2 + residual of narrow rows in bf16, in one kernel each way.
// x [rows, in], W1 [hidden, in], W2 [out, hidden], y and residual [rows, out].
//
// A block takes a tile of 128 or 64 rows at a time, a warp 16 of them, whose x and y stay in its registers.
// The hidden columns pass in chunks of 32; the weights of the next chunk are copied to shared memory while
// those of this one are used:
//   forward    h = x W1^T + b1,   y += f(h) W2^T
//   backward   gh = f'(h) (gy W2),   gx += gh W1
// Forward writes h (for ReLU f(h), which is as good); backward reads it and writes gh and f(h), which the
// gradients of the weights take. Nothing else of the hidden numbers leaves the chip. A third kernel makes the
// forward pass with the sums and norms on both sides of it (add_norm.cuh).
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// Warps of a block. Those of a multiprocessor fill its registers, in one block or in two where its shared memory
// holds two.
constexpr int mlp_warps = 8;
template <int Warps> constexpr int mlp_threads = Warps* warp_size;
template <int Warps> constexpr int mlp_rows = Warps * 16;
constexpr int mlp_chunk = warp_size;  // hidden columns per step
constexpr int mlp_stride = row_stride<bf16, mlp_chunk>;

struct MlpShape {
  int rows, in, hidden, out;

  template <int Warps> __device__ int tiles() const { return (rows + mlp_rows<Warps> - 1) / mlp_rows<Warps>; }
  // The columns from c on of x [rows, hidden].
  template <class T> __device__ MatrixRows<T> hidden_rows(T* x, int c) const {
    return {x + c, hidden, rows, hidden - c};
  }
};

// The weights of two chunks in shared memory, one in use and one on its way, and with `Hidden` also the
// block's rows of h. D: in and out, padded.
template <int D, int Warps, bool Hidden> class MlpChunks {
 public:
  static constexpr int first_numbers = mlp_chunk * row_stride<bf16, D>, second_numbers = D * mlp_stride,
                       hidden_numbers = Hidden ? mlp_rows<Warps> * mlp_stride : 0,
                       numbers = first_numbers + second_numbers + hidden_numbers;

  __device__ MlpChunks(const bf16* w1, const bf16* w2, const bf16* h, const MlpShape& shape, bf16* memory)
      : w1_(w1), w2_(w2), h_(h), shape_(shape), memory_(memory) {
    start(int(blockIdx.x), 0, 0);
  }

  // Waits for the chunk at column c of a tile of rows and starts to copy the one after it. `side` alternates
  // between 0 and 1. Called by all threads.
  __device__ void next(int tile, int c, int side) const {
    wait_copies<0>();
    __syncthreads();
    if (c + mlp_chunk < shape_.hidden)
      start(tile, c + mlp_chunk, 1 - side);
    else if (tile + int(gridDim.x) < shape_.tiles<Warps>())
      start(tile + int(gridDim.x), 0, 1 - side);
  }

  __device__ bf16* first(int side) const { return memory_ + side * numbers; }        // of W1, [chunk, D]
  __device__ bf16* second(int side) const { return first(side) + first_numbers; }    // of W2, [D, chunk]
  __device__ bf16* hidden(int side) const { return second(side) + second_numbers; }  // of h, [rows, chunk]

 private:
  __device__ void start(int tile, int c, int side) const {
    constexpr int threads = mlp_threads<Warps>, rows = mlp_rows<Warps>;
    const int thread = int(threadIdx.x), left = shape_.hidden - c;
    const auto columns = [&](const bf16* p, int n) {
      return MatrixRows<const bf16>{p + c, shape_.hidden, n, left};
    };
    if (w1_)
      load_rows<D>(first(side), MatrixRows<const bf16>{w1_, shape_.in, shape_.hidden, shape_.in}, c,
                   mlp_chunk, thread, threads);
    load_rows<mlp_chunk>(second(side), columns(w2_, shape_.out), 0, D, thread, threads);
    if constexpr (Hidden)
      load_rows<mlp_chunk>(hidden(side), columns(h_, shape_.rows), tile * rows, rows, thread, threads);
    close_copies();
  }

  const bf16 *w1_, *w2_, *h_;
  MlpShape shape_;
  bf16* memory_;
};

// The numbers at columns col and col + 1 of a row, zeros beyond the end, as a pair (float2, or two bf16 in 32
// bits); in_pairs: x.aligned().
template <class T> __device__ auto read_pair(const MatrixRows<const T>& x, int row, int col, bool in_pairs) {
  using Pair = std::conditional_t<std::is_same_v<T, float>, float2, uint32_t>;
  if (row >= x.n || col >= x.d) return Pair{};
  const T* const p = x.at(row) + col;
  if (in_pairs) return *reinterpret_cast<const Pair*>(p);
  const T second = col + 1 < x.d ? p[1] : T{};
  if constexpr (std::is_same_v<T, float>)
    return float2{p[0], second};
  else
    return pack_bf16(p[0], second);
}
__device__ inline float2 unpack_bf16(uint32_t pair) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}

// 16 rows as left operands, from global memory into registers.
template <int D>
__device__ void read_strip(KeptRows<bf16, D, 1>& strip, const MatrixRows<const bf16>& x, int first) {
  const bool in_pairs = x.aligned();
#pragma unroll
  for (int k = 0; k < D / 16; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      strip.a[0][k].v[i] =
          read_pair(x, first + tile_row(i % 2 * 2), k * 16 + i / 2 * 8 + tile_col(0), in_pairs);
}

template <int J> __device__ void round_to_bf16(TileD (&h)[1][J]) {
#pragma unroll
  for (int j = 0; j < J; ++j)
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t pair = pack_bf16(h[0][j].v[i], h[0][j].v[i + 1]);
      h[0][j].v[i] = __uint_as_float(pair << 16);
      h[0][j].v[i + 1] = __uint_as_float(pair & 0xffff0000u);
    }
}

// Stores o to y's rows first to first + 15; with a bias, o + bias + residual (may be null). own: the warp's
// memory for [16, chunk].
template <int D, class Y> __device__ void store_results(const MatrixRows<Y>& y, int first,
                                                        const TileD (&o)[1][D / 8], const bf16* bias,
                                                        const std::type_identity_t<Y>* residual, Y* own) {
#pragma unroll
  for (int begin = 0; begin < D; begin += mlp_chunk) {
    TileD part[1][mlp_chunk / 8];
#pragma unroll
    for (int j = 0; j < mlp_chunk / 8; ++j) part[0][j] = o[0][begin / 8 + j];
    if (bias)
      for_numbers(part, [&](float& v, int r, int c) {
        const int row = first + strip_row(r), col = begin + chunk_col(c);
        if (row >= y.n || col >= y.d) return;
        v += upcast(bias[col]);
        if (residual) v += upcast(residual[int64_t(row) * y.ld + col]);
      });
    store_strip<mlp_chunk>(MatrixRows<Y>{y.p + begin, y.ld, y.n, y.d - begin}, first, part, own);
  }
}

// o += f(x W1^T + b1) W2^T for the warp's strip of a tile, from row `first` on. hidden [rows, hidden] receives
// what backward takes as h: x W1^T + b1, for ReLU f of it; it may be null. own: the warp's memory for [16,
// chunk]. Called by all threads.
template <class F, int D, int Warps>
__device__ void add_mlp(TileD (&o)[1][D / 8], const KeptRows<bf16, D, 1>& strip, int tile, int first,
                        const MlpChunks<D, Warps, false>& chunks, int& side, const bf16* b1, bf16* hidden,
                        bf16* own, const MlpShape& shape) {
  for (int c = 0; c < shape.hidden; c += mlp_chunk, side = 1 - side) {
    chunks.next(tile, c, side);
    TileD h[1][mlp_chunk / 8];
    product_with_rows<D>(h, strip, static_cast<const bf16*>(chunks.first(side)));
    for_numbers(h, [&](float& v, int, int i) {
      const int col = c + chunk_col(i);
      v = col < shape.hidden ? v + upcast(b1[col]) : 0.0f;
    });
    round_to_bf16(h);  // as it is stored, so that backward sees the same number
    const auto store = [&] {
      if (hidden) store_strip<mlp_chunk>(shape.hidden_rows(hidden, c), first, h, own);
    };
    if constexpr (!F::from_result) store();
    for_numbers(h, [](float& v, int, int) { v = F::value(v); });
    if constexpr (F::from_result) store();
    __syncwarp();  // lanes end the loop over the last rows at different turns; products want them together
    add_product_with_rows<D>(o, h, static_cast<const bf16*>(chunks.second(side)));
  }
}

// hidden as for add_mlp; residual may be null.
template <class F, int D, int Warps, class Y>
__global__ void __launch_bounds__(mlp_threads<Warps>, mlp_warps / Warps)
    mlp_kernel(const bf16* x, const bf16* w1, const bf16* b1, const bf16* w2, const bf16* b2,
               const Y* residual, bf16* hidden, Y* y, MlpShape shape) {
  const int warp = warp_index();
  Shared shared;
  using Chunks = MlpChunks<D, Warps, false>;
  const Chunks chunks(w1, w2, nullptr, shape, shared.array<bf16>(2 * Chunks::numbers));
  bf16* const own = shared.array<bf16>(mlp_rows<Warps> * mlp_stride) + warp * 16 * mlp_stride;
  constexpr int y_stride = row_stride<Y, mlp_chunk>;
  Y* const own_y = shared.array<Y>(mlp_rows<Warps> * y_stride) + warp * 16 * y_stride;
  int side = 0;
  for (int tile = int(blockIdx.x); tile < shape.tiles<Warps>(); tile += int(gridDim.x)) {
    const int first = tile * mlp_rows<Warps> + warp * 16;
    KeptRows<bf16, D, 1> strip;
    read_strip(strip, {x, shape.in, shape.rows, shape.in}, first);
    TileD o[1][D / 8];
    add_mlp<F, D, Warps>(o, strip, tile, first, chunks, side, b1, hidden, own, shape);
    store_results<D>(MatrixRows<Y>{y, shape.out, shape.rows, shape.out}, first, o, b2, residual, own_y);
  }
}

// A sum of the residual stream and a branch, its layer norm, and the norm's statistics; all [rows, in] or
// [rows].
struct StripNorm {
  DropFactor factor;  // of the branch
  const float *weight, *bias;
  float eps;
  float* sum;
  bf16* norm;
  float *mean, *rstd;
};

// Stores the sum s, 16 rows in registers, and its norm, which replaces it. own and own_sum: the warp's memory
// for [16, chunk].
template <int D> __device__ void store_sum_and_norm(TileD (&s)[1][D / 8], const StripNorm& to, int first,
                                                    int rows, int cols, bf16* own, float* own_sum) {
  store_results<D>(MatrixRows<float>{to.sum, cols, rows, cols}, first, s, nullptr, nullptr, own_sum);
  float sum[2] = {0, 0}, squares[2] = {0, 0}, centre[2], spread[2];
  for_numbers(s, [&](float v, int r, int) { sum[r] += v; });
#pragma unroll
  for (int r = 0; r < 2; ++r) centre[r] = row_sum(sum[r]) / float(cols);
  for_numbers(s, [&](float v, int r, int c) {
    if (chunk_col(c) < cols) squares[r] += (v - centre[r]) * (v - centre[r]);
  });
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    spread[r] = 1 / sqrtf(row_sum(squares[r]) / float(cols) + to.eps);
    const int row = first + strip_row(r);
    if (tile_col(0) == 0 && row < rows) {
      to.mean[row] = centre[r];
      to.rstd[row] = spread[r];
    }
  }
  for_numbers(s, [&](float& v, int r, int c) {
    const int col = chunk_col(c);
    v = col < cols ? (v - centre[r]) * spread[r] * to.weight[col] + to.bias[col] : 0.0f;
  });
  store_results<D>(MatrixRows<bf16>{to.norm, cols, rows, cols}, first, s, nullptr, nullptr, own);
}

// s = residual + factor branch and its norm n go to `before`; s + factor (f(n W1^T + b1) W2^T + b2) and its norm
// to `after`. hidden as for add_mlp. in = out.
template <class F, int D, int Warps> __global__ void __launch_bounds__(mlp_threads<Warps>, mlp_warps / Warps)
    residual_mlp_kernel(const bf16* branch, const float* residual, StripNorm before, const bf16* w1,
                        const bf16* b1, const bf16* w2, const bf16* b2, bf16* hidden, StripNorm after,
                        MlpShape shape) {
  const int warp = warp_index();
  Shared shared;
  using Chunks = MlpChunks<D, Warps, false>;
  const Chunks chunks(w1, w2, nullptr, shape, shared.array<bf16>(2 * Chunks::numbers));
  bf16* const own = shared.array<bf16>(mlp_rows<Warps> * mlp_stride) + warp * 16 * mlp_stride;
  constexpr int sum_stride = row_stride<float, mlp_chunk>;
  float* const own_sum = shared.array<float>(mlp_rows<Warps> * sum_stride) + warp * 16 * sum_stride;
  const int cols = shape.in;
  const auto rows_of = [&]<class T>(const T* p) { return MatrixRows<const T>{p, cols, shape.rows, cols}; };
  int side = 0;
  for (int tile = int(blockIdx.x); tile < shape.tiles<Warps>(); tile += int(gridDim.x)) {
    const int first = tile * mlp_rows<Warps> + warp * 16;
    // s <- plus + factor branch, by pairs of columns: branch_of(row, column, the pair in s).
    const auto add_up = [&](TileD(&s)[1][D / 8], const MatrixRows<const float>& plus,
                            const DropFactor& factor, const auto& branch_of) {
      const bool in_pairs = plus.aligned();
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const int row = first + tile_row(i);
        const float f = row < shape.rows ? factor(row) : 0;
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
          const int col = j * 8 + tile_col(0);
          float* const v = s[0][j].v + i;
          const float2 old = read_pair(plus, row, col, in_pairs),
                       add = f != 0 ? branch_of(row, col, v) : float2{0, 0};
          v[0] = old.x + f * add.x;
          v[1] = old.y + f * add.y;
        }
      }
    };
    KeptRows<bf16, D, 1> strip;
    {
      TileD s[1][D / 8];
      const auto of_branch = rows_of(branch);
      const bool in_pairs = of_branch.aligned();
      add_up(s, rows_of(residual), before.factor, [&](int row, int col, const float*) {
        return unpack_bf16(read_pair(of_branch, row, col, in_pairs));
      });
      store_sum_and_norm<D>(s, before, first, shape.rows, cols, own, own_sum);
#pragma unroll
      for (int k = 0; k < D / 16; ++k) results_as_a(strip.a[0][k], &s[0][2 * k]);
    }
    TileD o[1][D / 8];
    add_mlp<F, D, Warps>(o, strip, tile, first, chunks, side, b1, hidden, own, shape);
    add_up(o, rows_of(static_cast<const float*>(before.sum)), after.factor,
           [&](int, int col, const float* v) {
             return float2{v[0] + (col < cols ? upcast(b2[col]) : 0),
                           v[1] + (col + 1 < cols ? upcast(b2[col + 1]) : 0)};
           });
    store_sum_and_norm<D>(o, after, first, shape.rows, cols, own, own_sum);
  }
}

// gh [rows, hidden] receives f'(h) (gy W2), active f(h), gx gh W1, and part [blocks, hidden] the sums of each
// block's rows of gh. Of these all but gh may be null; W1 is read for gx only.
template <class F, int D, int Warps> __global__ void __launch_bounds__(mlp_threads<Warps>, mlp_warps / Warps)
    mlp_gradient_kernel(const bf16* gy, const bf16* h, const bf16* w1, const bf16* w2, bf16* gh, bf16* active,
                        bf16* gx, float* part, MlpShape shape) {
  const int warp = warp_index(), lane = lane_index(), thread = int(threadIdx.x);
  Shared shared;
  constexpr int threads = mlp_threads<Warps>;
  using Chunks = MlpChunks<D, Warps, true>;
  const Chunks chunks(w1, w2, h, shape, shared.array<bf16>(2 * Chunks::numbers));
  // Each warp's sums over a chunk's columns, of this chunk and of the one before; the block's sums over all.
  float* const sums = shared.array<float>(2 * threads);
  float* const totals = shared.array<float>(shape.hidden + mlp_chunk);
  for (int j = thread; j < shape.hidden + mlp_chunk; j += threads) totals[j] = 0;
  const auto add_up = [&](int c, int side) {
    if (!part || warp > 0 || c < 0) return;
    float sum = totals[c + lane];
    for (int w = 0; w < Warps; ++w) sum += sums[side * threads + w * warp_size + lane];
    totals[c + lane] = sum;
  };
  int side = 0, before = -1;
  for (int tile = int(blockIdx.x); tile < shape.tiles<Warps>(); tile += int(gridDim.x)) {
    const int first = tile * mlp_rows<Warps> + warp * 16;
    KeptRows<bf16, D, 1> strip;
    read_strip(strip, {gy, shape.out, shape.rows, shape.out}, first);
    TileD o[1][D / 8];
    for (int c = 0; c < shape.hidden; c += mlp_chunk, side = 1 - side) {
      chunks.next(tile, c, side);
      add_up(before, 1 - side);
      before = c;
      TileD g[1][mlp_chunk / 8];
      product<D>(g, strip, static_cast<const bf16*>(chunks.second(side)));
      bf16* const own = chunks.hidden(side) + warp * 16 * mlp_stride;
#pragma unroll
      for (int j = 0; j < mlp_chunk / 8; ++j)
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
          float* const v = g[0][j].v + i;
          auto& pair = *reinterpret_cast<uint32_t*>(own + tile_row(i) * mlp_stride + j * 8 + tile_col(i));
          const float left = __uint_as_float(pair << 16), right = __uint_as_float(pair & 0xffff0000u);
          v[0] *= F::slope(left);
          v[1] *= F::slope(right);
          if constexpr (!F::from_result) pair = pack_bf16(F::value(left), F::value(right));
        }
      if (!F::from_result && active) {
        __syncwarp();
        store_rows<mlp_chunk>(shape.hidden_rows(active, c), first, own);
      }
      store_strip<mlp_chunk>(shape.hidden_rows(gh, c), first, g, own);
      __syncwarp();
      if (part) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 16; ++i) sum += upcast(own[i * mlp_stride + lane]);
        sums[side * threads + thread] = sum;
      }
      if (gx) add_product<D>(o, g, static_cast<const bf16*>(chunks.first(side)));
    }
    if (gx)
      store_results<D>(MatrixRows<bf16>{gx, shape.in, shape.rows, shape.in}, first, o, nullptr, nullptr,
                       chunks.hidden(1 - side) + warp * 16 * mlp_stride);
  }
  if (!part) return;
  __syncthreads();
  add_up(before, 1 - side);
  __syncthreads();
  for (int j = thread; j < shape.hidden; j += threads)
    part[int64_t(blockIdx.x) * shape.hidden + j] = totals[j];
}

// Calls f(width of the kernels' rows, warps of a block): blocks of as many rows as they can have where there is
// one for every multiprocessor, else of half as many, which read the weights twice as often.
template <class F> void with_mlp_kernel(const MlpShape& shape, const F& f) {
  const auto with_width = [&](auto warps) {
    const int most = std::max(shape.in, shape.out);
    if (most <= 64)
      f(std::integral_constant<int, 64>{}, warps);
    else if (most <= 128)
      f(std::integral_constant<int, 128>{}, warps);
    else
      f(std::integral_constant<int, 192>{}, warps);
  };
  if (shape.rows >= int64_t(mlp_rows<mlp_warps>) * multiprocessors())
    with_width(std::integral_constant<int, mlp_warps>{});
  else
    with_width(std::integral_constant<int, mlp_warps / 2>{});
}

// As many blocks as the multiprocessors' registers hold. The bias's gradient is summed by blocks: its last bits
// depend on the number of multiprocessors.
template <int Warps> unsigned mlp_blocks(int64_t rows) {
  return blocks_for(rows, mlp_rows<Warps>, int64_t(mlp_warps / Warps) * multiprocessors());
}

// Bytes of a block's shared memory.
template <int D, int Warps, class Y> constexpr size_t mlp_shared() {
  return shared_size<bf16>(2 * MlpChunks<D, Warps, false>::numbers) +
         shared_size<bf16>(mlp_rows<Warps> * mlp_stride) +
         shared_size<Y>(mlp_rows<Warps> * row_stride<Y, mlp_chunk>);
}
template <int D, int Warps> constexpr size_t mlp_gradient_shared(int64_t hidden) {
  return shared_size<bf16>(2 * MlpChunks<D, Warps, true>::numbers) +
         shared_size<float>(2 * mlp_threads<Warps>) + shared_size<float>(hidden + mlp_chunk);
}

// Whether the kernels are for such an MLP: a warp's registers hold rows of 192 numbers, the shared memory that
// every GPU has the sums over 4096 hidden columns. Fewer rows than half a small tile for each multiprocessor
// would leave most without work.
inline bool fits_mlp_kernel(int64_t rows, int64_t in, int64_t hidden, int64_t out) {
  constexpr int most_hidden = 4096, most_shared = 99 * 1024;
  static_assert(mlp_shared<192, mlp_warps, float>() <= most_shared);
  static_assert(mlp_gradient_shared<192, mlp_warps>(most_hidden) <= most_shared);
  return std::min({in, hidden, out}) > 0 && std::max(in, out) <= 192 && hidden <= most_hidden &&
         rows <= INT_MAX - mlp_rows<mlp_warps> &&
         rows >= int64_t(mlp_rows<mlp_warps / 2> / 2) * multiprocessors();
}

// Requires fits_mlp_kernel, as the two below do.
template <class F, class Y> void mlp_forward(const bf16* x, const bf16* w1, const bf16* b1, const bf16* w2,
                                             const bf16* b2, const Y* residual, bf16* hidden, Y* y,
                                             const MlpShape& shape) {
  with_mlp_kernel(shape, [&](auto width, auto warps) {
    constexpr int D = width(), Warps = warps();
    launch<mlp_kernel<F, D, Warps, Y>>(
        {mlp_blocks<Warps>(shape.rows), mlp_threads<Warps>, mlp_shared<D, Warps, Y>()}, x, w1, b1, w2, b2,
        residual, hidden, y, shape);
  });
}

template <class F> void residual_mlp(const bf16* branch, const float* residual, const StripNorm& before,
                                     const bf16* w1, const bf16* b1, const bf16* w2, const bf16* b2,
                                     bf16* hidden, const StripNorm& after, const MlpShape& shape) {
  with_mlp_kernel(shape, [&](auto width, auto warps) {
    constexpr int D = width(), Warps = warps();
    launch<residual_mlp_kernel<F, D, Warps>>(
        {mlp_blocks<Warps>(shape.rows), mlp_threads<Warps>, mlp_shared<D, Warps, float>()}, branch, residual,
        before, w1, b1, w2, b2, hidden, after, shape);
  });
}

// gb1 [hidden] receives the sums of gh's rows; it may be null.
template <class F> void mlp_gradient(const bf16* gy, const bf16* h, const bf16* w1, const bf16* w2, bf16* gh,
                                     bf16* active, bf16* gx, bf16* gb1, const MlpShape& shape) {
  with_mlp_kernel(shape, [&](auto width, auto warps) {
    constexpr int D = width(), Warps = warps();
    const unsigned blocks = mlp_blocks<Warps>(shape.rows);
    const auto part = gb1 ? Workspace<float>(int64_t(blocks) * shape.hidden) : Workspace<float>();
    launch<mlp_gradient_kernel<F, D, Warps>>(
        {blocks, mlp_threads<Warps>, mlp_gradient_shared<D, Warps>(shape.hidden)}, gy, h, w1, w2, gh, active,
        gx, part.data(), shape);
    if (gb1) column_sums(static_cast<const float*>(part.data()), gb1, blocks, shape.hidden);
  });
}

}  // namespace pursuit::cuda
#endif
