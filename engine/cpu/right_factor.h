#pragma once
#include "engine/cpu/bf16_tiles.h"
#include "engine/cpu/gemm.h"
#include "engine/cpu/kept_factors.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/scratch.h"
#include "engine/cpu/wide_rows.h"
#include "engine/cpu/work.h"

namespace pursuit {

// How products find their right factor.
enum class Layout {
  as_is,   // where it lies: each packs what it needs
  packed,  // once for all, in the calling thread's scratch slot, where our own tiles make the products
  kept,    // the same by KeptFactors, where it has the factor
};

// The right factor op(w) [k, n] of a product that is cut into rows.
template <class T> class RightFactor {
 public:
  RightFactor(Layout layout, bool transposed, const T* w, int64_t ld, int64_t k, int64_t n, int slot)
      : layout_(layout), transposed_(transposed), w_(w), ld_(ld), k_(k), n_(n) {
    if (layout == Layout::as_is || k == 0 || n == 0) return;
    if constexpr (std::is_same_v<T, float>) pack(rows<float>(), w, layout, slot);
    if constexpr (std::is_same_v<T, bf16>)
      if (const Bf16Tiles* tiles = bf16_tiles()) pack(*tiles, words(w), layout, slot);
  }

  // c [m, n] = a op(w). Of w as it lies, transposed, up to most_few_rows rows read each number once.
  template <class C> void multiply(int64_t m, const T* a, int64_t lda, C* c, int64_t ldc) const {
    if constexpr (std::is_same_v<C, float>)
      if (layout_ == Layout::as_is && transposed_ && 0 < m && m <= most_few_rows && k_ > 0)
        return multiply_few(m, a, lda, c, ldc);
    multiply(m, n_, k_, compute_t<T>(1), a, lda, compute_t<T>(0), c, ldc);
  }

  // c = alpha a op(w) + beta c with the first k rows and n columns of op(w); k is even or all of them.
  template <class C> void multiply(int64_t m, int64_t n, int64_t k, compute_t<T> alpha, const T* a,
                                   int64_t lda, compute_t<T> beta, C* c, int64_t ldc) const {
    if constexpr (!std::is_same_v<T, double>) {
      constexpr bool rounds = !std::is_same_v<C, float>;
      const Packed<Number> b{packed_, n_, k_};
      if (packed_ && m > 0 && (!rounds || k_ <= bf16_tiles()->max_depth)) {
        count_multiply_adds(m * n * k);
        if constexpr (std::is_same_v<T, float>)
          return rows<float>().gemm_packed(m, n, k, alpha, a, lda, b, beta, c, ldc);
        else if constexpr (rounds)
          return bf16_tiles()->gemm_packed_rounded(m, n, k, alpha, words(a), lda, b, beta, words(c), ldc);
        else
          return bf16_tiles()->gemm_packed(m, n, k, alpha, words(a), lda, b, beta, c, ldc);
      }
    }
    gemm(false, transposed_, m, n, k, alpha, a, lda, w_, ld_, beta, c, ldc);
  }

 private:
  using Number = std::conditional_t<std::is_same_v<T, bf16>, uint32_t, T>;

  template <class Kernels, class Word>
  void pack(const Kernels& kernels, const Word* w, Layout layout, int slot) {
    const int64_t size = kernels.packed_size(n_, k_);
    const auto fill = [&](void* to) {
      const int64_t parts = num_threads();
      parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part)
          kernels.pack(transposed_, n_, k_, w, ld_, part, parts, static_cast<Number*>(to));
      });
    };
    if (layout == Layout::kept)
      kept_ = kept_factor({w, ld_, k_, n_, transposed_}, size * int64_t(sizeof(Number)), fill);
    void* to = kept_ ? kept_.get() : scratch<Number>(slot, size);
    if (!kept_) fill(to);
    packed_ = static_cast<const Number*>(to);
  }

  // The rows of w split over the threads.
  void multiply_few(int64_t m, const T* a, int64_t lda, float* c, int64_t ldc) const {
    count_multiply_adds(m * n_ * k_);
    const auto split = [&](const auto& product) {
      parallel_for(n_, std::max<int64_t>(16, 32768 / k_),
                   [&](int64_t begin, int64_t end) { product(end - begin, w_ + begin * ld_, c + begin); });
    };
    if constexpr (std::is_same_v<T, float>) {
      split([&](int64_t n, const float* w, float* to) {
        rows<float>().few_rows(m, n, k_, a, lda, w, ld_, to, ldc);
      });
    } else if (const Bf16Tiles* tiles = bf16_tiles()) {
      split([&](int64_t n, const bf16* w, float* to) {
        tiles->few_rows(m, n, k_, words(a), lda, words(w), ld_, to, ldc);
      });
    } else {
      const Rows<const float> x = read_rows(a, lda, m, k_, scratch<float>(3, m * k_));
      split([&](int64_t n, const bf16* w, float* to) {
        rows<float>().few_rows_bf16(m, n, k_, x.p, x.ld, words(w), ld_, to, ldc);
      });
    }
  }

  Layout layout_;
  bool transposed_;
  const T* w_;
  int64_t ld_, k_, n_;
  const Number* packed_ = nullptr;
  Storage kept_;
};

// That of a weight for `rows` rows.
inline Layout layout_of_weight(int64_t rows, bool transposed) {
  return transposed && rows <= most_few_rows ? Layout::as_is : Layout::kept;
}

}  // namespace pursuit
